//! The currencies that can be charged, with their decimals and limits.
//!
//! All lists are here and nowhere else; they change when Stripe's page changes.

use std::fmt;
use std::str::FromStr;

use super::MoneyError;

/// A currency in which Stripe charges cards.
///
/// Holds the lower-case code that goes over the wire; two currencies are equal when their codes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Currency(&'static str);

impl Currency {
    /// Reads a three-letter code in either case.
    pub fn parse(code: &str) -> Result<Self, MoneyError> {
        if code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return Err(MoneyError::MalformedCurrency);
        }
        let code = code.to_ascii_lowercase();
        match SUPPORTED.binary_search(&code.as_str()) {
            Ok(position) => Ok(Self(SUPPORTED[position])),
            Err(_) => Err(MoneyError::UnsupportedCurrency { code }),
        }
    }

    /// All supported currencies, in the order of their codes.
    pub fn all() -> impl Iterator<Item = Self> {
        SUPPORTED.iter().map(|code| Self(code))
    }

    /// The code in lower case, as Stripe wants it.
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// How many decimals the minor unit stands for: 2 for `usd` (cents), 0 for `jpy`, 3 for `kwd`.
    ///
    /// 2 for `isk` and `ugx` too: they have no decimals any more, yet Stripe still counts them in hundredths.
    pub fn exponent(self) -> u32 {
        if ZERO_DECIMAL.contains(&self.0) {
            0
        } else if THREE_DECIMAL.contains(&self.0) {
            3
        } else {
            2
        }
    }

    /// What every amount must be a multiple of, in minor units: 100 for `isk` and `ugx`, 10 for the three-decimal
    /// currencies (the card networks carry only two of the three), else 1.
    pub fn step_minor(self) -> i64 {
        if WHOLE_UNITS_SENT_AS_HUNDREDTHS.contains(&self.0) {
            100
        } else if THREE_DECIMAL.contains(&self.0) {
            10
        } else {
            1
        }
    }

    /// The least amount, in minor units: Stripe's minimum for an account that settles in this same currency, one step
    /// where Stripe names none.
    ///
    /// A floor, not a promise. Stripe applies the minimum of the settlement currency after conversion, which is not
    /// known here, and may still refuse a slightly larger amount with `amount_too_small`.
    pub fn least_minor(self) -> i64 {
        listed(MINIMUM_MINOR, self.0).unwrap_or_else(|| self.step_minor())
    }

    /// The most, in minor units: eight digits unless Stripe names more for the currency, rounded down to a whole step.
    ///
    /// This is the limit for any payment method. Stripe allows more digits on many cards, and a card network may
    /// allow less.
    pub fn most_minor(self) -> i64 {
        let most = listed(MAXIMUM_MINOR, self.0).unwrap_or(DEFAULT_MAXIMUM_MINOR);
        most - most % self.step_minor()
    }
}

impl FromStr for Currency {
    type Err = MoneyError;

    fn from_str(code: &str) -> Result<Self, Self::Err> {
        Self::parse(code)
    }
}

/// The lower-case code, which [`Currency::parse`] reads back.
impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

fn listed(table: &[(&str, i64)], code: &str) -> Option<i64> {
    table
        .iter()
        .find(|(listed, _)| *listed == code)
        .map(|(_, minor)| *minor)
}

/// Presentment currencies for cards (Stripe docs, Currencies), sorted for the binary search. Which of them an account
/// may use depends on its country; Stripe then refuses the charge. `bgn` and `hrk` are gone: their countries use `eur`.
/// Stored invoices are read by this list too, so a code that was once accepted is never just removed from it.
#[rustfmt::skip]
const SUPPORTED: &[&str] = &[
    "aed", "afn", "all", "amd", "ang", "aoa", "ars", "aud", "awg", "azn", "bam", "bbd", "bdt", "bhd", "bif", "bmd",
    "bnd", "bob", "brl", "bsd", "bwp", "byn", "bzd", "cad", "cdf", "chf", "clp", "cny", "cop", "crc", "cve", "czk",
    "djf", "dkk", "dop", "dzd", "egp", "etb", "eur", "fjd", "fkp", "gbp", "gel", "gip", "gmd", "gnf", "gtq", "gyd",
    "hkd", "hnl", "htg", "huf", "idr", "ils", "inr", "isk", "jmd", "jod", "jpy", "kes", "kgs", "khr", "kmf", "krw",
    "kwd", "kyd", "kzt", "lak", "lbp", "lkr", "lrd", "lsl", "mad", "mdl", "mga", "mkd", "mmk", "mnt", "mop", "mur",
    "mvr", "mwk", "mxn", "myr", "mzn", "nad", "ngn", "nio", "nok", "npr", "nzd", "omr", "pab", "pen", "pgk", "php",
    "pkr", "pln", "pyg", "qar", "ron", "rsd", "rub", "rwf", "sar", "sbd", "scr", "sek", "sgd", "shp", "sle", "sos",
    "srd", "std", "szl", "thb", "tjs", "tnd", "top", "try", "ttd", "twd", "tzs", "uah", "ugx", "usd", "uyu", "uzs",
    "vnd", "vuv", "wst", "xaf", "xcd", "xcg", "xof", "xpf", "yer", "zar", "zmw",
];

/// The minor unit is the whole unit (Stripe docs, Currencies, "Zero-decimal currencies").
#[rustfmt::skip]
const ZERO_DECIMAL: &[&str] = &[
    "bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf",
];

/// No decimals, but sent with two that must be zero (Stripe docs, Currencies, "Special cases"). `huf` and `twd` stand
/// beside them there, but are restricted for payouts only.
const WHOLE_UNITS_SENT_AS_HUNDREDTHS: &[&str] = &["isk", "ugx"];

/// Thousandths, of which the last digit must be zero (Stripe docs, Currencies, "Three-decimal currencies").
const THREE_DECIMAL: &[&str] = &["bhd", "jod", "kwd", "omr", "tnd"];

/// Least charge in minor units (Stripe docs, Currencies, "Minimum charge amount by currency").
#[rustfmt::skip]
const MINIMUM_MINOR: &[(&str, i64)] = &[
    ("aed", 200), ("ars", 50), ("aud", 50), ("brl", 50), ("cad", 50), ("chf", 50), ("cop", 50), ("czk", 1_500),
    ("dkk", 250), ("eur", 50), ("gbp", 30), ("hkd", 400), ("huf", 17_500), ("idr", 50), ("ils", 50), ("inr", 50),
    ("jpy", 50), ("krw", 50), ("mxn", 1_000), ("myr", 200), ("nok", 300), ("nzd", 50), ("php", 50), ("pln", 200),
    ("ron", 200), ("rub", 50), ("sek", 300), ("sgd", 50), ("thb", 1_000), ("usd", 50), ("zar", 50),
];

/// Most in minor units where it is not [`DEFAULT_MAXIMUM_MINOR`] (Stripe docs, Currencies, "Maximum charge amounts").
const MAXIMUM_MINOR: &[(&str, i64)] = &[
    ("cop", 9_999_999_999),
    ("idr", 999_999_999_999),
    ("inr", 999_999_999),
];

/// Eight digits (Stripe docs, Currencies, "Maximum charge amounts").
const DEFAULT_MAXIMUM_MINOR: i64 = 99_999_999;

#[cfg(test)]
mod tests {
    use super::*;

    fn currency(code: &str) -> Currency {
        Currency::parse(code).unwrap()
    }

    #[test]
    fn a_currency_code_is_read_in_either_case_and_kept_in_lower_case() {
        for code in ["usd", "USD", "Usd"] {
            assert_eq!(currency(code).as_str(), "usd");
            assert_eq!(code.parse::<Currency>().unwrap().to_string(), "usd");
        }
    }

    #[test]
    fn anything_but_three_letters_is_malformed_and_not_repeated() {
        for code in [
            "", "us", "usdd", "us1", " usd", "us\u{0}", "u s", "€", "ußd", "1\u{1b}[", "US$",
        ] {
            let error = Currency::parse(code).unwrap_err();
            assert_eq!(error, MoneyError::MalformedCurrency, "{code:?}");
            assert_eq!(error.field(), "currency");
        }
    }

    #[test]
    fn three_letters_that_stripe_does_not_charge_are_unsupported() {
        for code in ["xxx", "XAU", "xbt", "hrk", "bgn", "sll", "vef"] {
            let error = Currency::parse(code).unwrap_err();
            assert_eq!(
                error,
                MoneyError::UnsupportedCurrency {
                    code: code.to_lowercase()
                }
            );
            assert_eq!(error.field(), "currency");
        }
    }

    #[test]
    fn the_supported_codes_are_sorted_unique_and_more_than_135() {
        assert!(SUPPORTED.is_sorted_by(|one, next| one < next));
        assert!(SUPPORTED.len() > 135, "{}", SUPPORTED.len());
        for listed in Currency::all() {
            assert_eq!(Currency::parse(listed.as_str()), Ok(listed));
        }
    }

    #[test]
    fn every_special_list_names_supported_currencies_only() {
        let plain = [ZERO_DECIMAL, THREE_DECIMAL, WHOLE_UNITS_SENT_AS_HUNDREDTHS].concat();
        let limited = MINIMUM_MINOR
            .iter()
            .chain(MAXIMUM_MINOR)
            .map(|(code, _)| *code);
        for code in plain.into_iter().chain(limited) {
            assert!(Currency::parse(code).is_ok(), "{code}");
        }
    }

    #[test]
    fn exponents_and_steps_follow_stripe_and_not_iso_4217() {
        #[rustfmt::skip]
        let table = [
            ("usd", 2, 1), ("eur", 2, 1), ("huf", 2, 1), ("twd", 2, 1), ("idr", 2, 1),
            ("jpy", 0, 1), ("krw", 0, 1), ("mga", 0, 1), ("vnd", 0, 1), ("xaf", 0, 1),
            ("isk", 2, 100), ("ugx", 2, 100),
            ("bhd", 3, 10), ("jod", 3, 10), ("kwd", 3, 10), ("omr", 3, 10), ("tnd", 3, 10),
        ];
        for (code, exponent, step_minor) in table {
            assert_eq!(currency(code).exponent(), exponent, "{code}");
            assert_eq!(currency(code).step_minor(), step_minor, "{code}");
        }
    }

    #[test]
    fn limits_are_those_of_stripe() {
        #[rustfmt::skip]
        let table = [
            // (code, least, most)
            ("usd", 50, 99_999_999), ("gbp", 30, 99_999_999), ("huf", 17_500, 99_999_999), ("jpy", 50, 99_999_999),
            ("mxn", 1_000, 99_999_999), ("nok", 300, 99_999_999), ("krw", 50, 99_999_999),
            ("idr", 50, 999_999_999_999), ("cop", 50, 9_999_999_999), ("inr", 50, 999_999_999),
            ("kes", 1, 99_999_999), ("clp", 1, 99_999_999),
            ("kwd", 10, 99_999_990), ("isk", 100, 99_999_900), ("ugx", 100, 99_999_900),
        ];
        for (code, least_minor, most_minor) in table {
            assert_eq!(
                (currency(code).least_minor(), currency(code).most_minor()),
                (least_minor, most_minor),
                "{code}"
            );
        }
    }
}
