//! Money: an amount in a currency's minor units, checked against what Stripe lets one charge.
//!
//! Pure values, whole numbers only: no floats, no conversion, no arithmetic across currencies. Whoever holds a
//! [`Money`] holds an amount that the provider accepts as such, so a bad amount is refused before anything is reserved.
//!
//! Source of every list and limit: Stripe docs, "Currencies". ISO 4217 is no substitute; it gives other exponents for
//! `mga`, `isk` and `ugx`.

mod currency;

use std::fmt;

pub use currency::Currency;

/// An amount that can be charged: whole minor units within the currency's limits, as they were when it was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Money {
    amount_minor: i64,
    currency: Currency,
}

/// Why an amount and a currency code are not chargeable money. The text is meant for the caller, who may be a language
/// model: it names the field as the API does and says what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    /// The code is not three letters. It is not repeated, as it may be anything.
    #[error("currency must be a three-letter ISO 4217 code such as usd, eur or jpy")]
    MalformedCurrency,
    /// Three letters, but no currency that can be charged.
    #[error(
        "currency {code} is not supported; use a three-letter ISO 4217 code that Stripe charges, such as usd, eur or jpy"
    )]
    UnsupportedCurrency {
        /// The three letters, in lower case.
        code: String,
    },
    /// Zero, negative, or under the currency's minimum.
    #[error("amountCents is in the currency's minor units; for {currency} the least is {least_minor}, which means {}", Money::display(*.least_minor, *.currency))]
    AmountTooSmall {
        /// The currency asked for.
        currency: Currency,
        /// The smallest amount that is accepted, in minor units.
        least_minor: i64,
    },
    /// Over the currency's maximum.
    #[error("amountCents is in the currency's minor units; for {currency} the most is {most_minor}, which means {}", Money::display(*.most_minor, *.currency))]
    AmountTooLarge {
        /// The currency asked for.
        currency: Currency,
        /// The largest amount that is accepted, in minor units.
        most_minor: i64,
    },
    /// The currency has no coin that small, although its minor unit has.
    #[error(
        "amountCents is in the currency's minor units; for {currency} it must be a multiple of {step_minor}, such as {below_minor} or {above_minor}"
    )]
    AmountBetweenSteps {
        /// The currency asked for.
        currency: Currency,
        /// What the amount must be a multiple of, in minor units.
        step_minor: i64,
        /// The nearest accepted amount under the one asked for.
        below_minor: i64,
        /// The nearest accepted amount over the one asked for.
        above_minor: i64,
    },
}

impl Money {
    /// Checks an amount in minor units (cents for `usd`, yen for `jpy`, thousandths for `kwd`) and a currency code.
    ///
    /// The currency is checked first, as the amount's limits depend on it.
    ///
    /// ```
    /// use chargeonce::money::Money;
    ///
    /// assert_eq!(Money::new(1250, "usd").unwrap().to_string(), "USD 12.50");
    /// assert_eq!(
    ///     Money::new(49, "usd").unwrap_err().to_string(),
    ///     "amountCents is in the currency's minor units; for usd the least is 50, which means USD 0.50",
    /// );
    /// ```
    pub fn new(amount_minor: i64, currency_code: &str) -> Result<Self, MoneyError> {
        let currency = Currency::parse(currency_code)?;
        let least_minor = currency.least_minor();
        if amount_minor < least_minor {
            return Err(MoneyError::AmountTooSmall {
                currency,
                least_minor,
            });
        }
        let most_minor = currency.most_minor();
        if amount_minor > most_minor {
            return Err(MoneyError::AmountTooLarge {
                currency,
                most_minor,
            });
        }
        let step_minor = currency.step_minor();
        let over = amount_minor % step_minor;
        if over != 0 {
            let below_minor = amount_minor - over;
            let above_minor = below_minor + step_minor;
            return Err(MoneyError::AmountBetweenSteps {
                currency,
                step_minor,
                below_minor,
                above_minor,
            });
        }
        Ok(Self {
            amount_minor,
            currency,
        })
    }

    /// Reads money that was accepted before, by the limits of its own day: today's may have become tighter, and what is
    /// owed must stay readable. The provider still has the last word on it.
    pub fn stored(amount_minor: i64, currency_code: &str) -> Result<Self, MoneyError> {
        let currency = Currency::parse(currency_code)?;
        if amount_minor <= 0 {
            return Err(MoneyError::AmountTooSmall {
                currency,
                least_minor: currency.least_minor(),
            });
        }
        Ok(Self {
            amount_minor,
            currency,
        })
    }

    /// The amount in minor units, above zero.
    pub fn amount_minor(self) -> i64 {
        self.amount_minor
    }

    /// The currency.
    pub fn currency(self) -> Currency {
        self.currency
    }

    /// Any limit as people read it, without asking whether it could be charged.
    fn display(amount_minor: i64, currency: Currency) -> Self {
        Self {
            amount_minor,
            currency,
        }
    }
}

/// Any amount of minor units for people, whoever keeps it: `USD 12.50`.
pub fn words(amount_minor: i64, currency_code: &str) -> String {
    Currency::parse(currency_code).map_or_else(
        |_| format!("{amount_minor} {currency_code} in minor units"),
        |currency| Money::display(amount_minor, currency).to_string(),
    )
}

/// For people: `USD 12.50`, `JPY 1250`, `KWD 5.120`.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.currency.as_str().to_ascii_uppercase();
        let exponent = self.currency.exponent();
        if exponent == 0 {
            return write!(f, "{code} {}", self.amount_minor);
        }
        let unit = 10_i64.pow(exponent);
        let (whole, part) = (self.amount_minor / unit, self.amount_minor % unit);
        write!(
            f,
            "{code} {whole}.{part:0width$}",
            width = exponent as usize
        )
    }
}

impl MoneyError {
    /// The request field at fault, as the API spells it.
    pub fn field(&self) -> &'static str {
        match self {
            Self::MalformedCurrency | Self::UnsupportedCurrency { .. } => "currency",
            Self::AmountTooSmall { .. }
            | Self::AmountTooLarge { .. }
            | Self::AmountBetweenSteps { .. } => "amountCents",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_amount_has_words() {
        for (amount_minor, code, expected) in [
            (250, "usd", "USD 2.50"),
            (0, "usd", "USD 0.00"),
            (1250, "jpy", "JPY 1250"),
            (7, "???", "7 ??? in minor units"),
        ] {
            assert_eq!(words(amount_minor, code), expected);
        }
    }

    #[test]
    fn every_currency_takes_its_least_and_its_most_and_nothing_beyond() {
        for currency in Currency::all() {
            let (code, step) = (currency.as_str(), currency.step_minor());
            let (least_minor, most_minor) = (currency.least_minor(), currency.most_minor());
            assert!(0 < least_minor && least_minor < most_minor, "{code}");
            for amount_minor in [least_minor, least_minor + step, most_minor] {
                let money = Money::new(amount_minor, code).unwrap();
                assert_eq!(
                    (money.amount_minor(), money.currency()),
                    (amount_minor, currency)
                );
            }
            for amount_minor in [i64::MIN, -least_minor, -1, 0, least_minor - 1] {
                let expected = MoneyError::AmountTooSmall {
                    currency,
                    least_minor,
                };
                assert_eq!(
                    Money::new(amount_minor, code),
                    Err(expected),
                    "{amount_minor} {code}"
                );
            }
            for amount_minor in [most_minor + 1, i64::MAX] {
                let expected = MoneyError::AmountTooLarge {
                    currency,
                    most_minor,
                };
                assert_eq!(
                    Money::new(amount_minor, code),
                    Err(expected),
                    "{amount_minor} {code}"
                );
            }
        }
    }

    #[test]
    fn an_amount_between_two_steps_is_refused_with_its_neighbours() {
        let table = [
            ("kwd", 5_124, 10, 5_120, 5_130),
            ("tnd", 99_999_989, 10, 99_999_980, 99_999_990),
            ("isk", 101, 100, 100, 200),
            ("ugx", 599, 100, 500, 600),
        ];
        for (code, amount_minor, step_minor, below_minor, above_minor) in table {
            let currency = Currency::parse(code).unwrap();
            let expected = MoneyError::AmountBetweenSteps {
                currency,
                step_minor,
                below_minor,
                above_minor,
            };
            assert_eq!(expected.field(), "amountCents");
            assert_eq!(
                Money::new(amount_minor, code),
                Err(expected),
                "{amount_minor} {code}"
            );
            assert!(Money::new(below_minor, code).is_ok() && Money::new(above_minor, code).is_ok());
        }
    }

    #[test]
    fn stored_money_is_read_whatever_the_limits_have_become() {
        for (amount_minor, code) in [(1, "usd"), (i64::MAX, "jpy"), (5_124, "kwd"), (101, "isk")] {
            assert!(Money::new(amount_minor, code).is_err());
            let money = Money::stored(amount_minor, code).unwrap();
            assert_eq!(
                (money.amount_minor(), money.currency().as_str()),
                (amount_minor, code)
            );
        }
        for (amount_minor, code) in [(0, "usd"), (-1, "usd"), (i64::MIN, "jpy"), (50, "xxx")] {
            assert!(Money::stored(amount_minor, code).is_err());
        }
    }

    #[test]
    fn money_reads_as_people_write_it() {
        #[rustfmt::skip]
        let table = [
            (1_250, "usd", "USD 12.50"), (50, "usd", "USD 0.50"), (105, "EUR", "EUR 1.05"),
            (99_999_999, "usd", "USD 999999.99"), (1_250, "jpy", "JPY 1250"), (5_120, "kwd", "KWD 5.120"),
            (10, "bhd", "BHD 0.010"), (500, "isk", "ISK 5.00"), (999_999_999_999, "idr", "IDR 9999999999.99"),
        ];
        for (amount_minor, code, text) in table {
            assert_eq!(Money::new(amount_minor, code).unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_error_names_its_field_and_says_what_would_be_accepted() {
        #[rustfmt::skip]
        let table = [
            (0, "usd", "amountCents", "amountCents is in the currency's minor units; for usd the least is 50, which means USD 0.50"),
            (100_000_000, "jpy", "amountCents", "amountCents is in the currency's minor units; for jpy the most is 99999999, which means JPY 99999999"),
            (5_124, "kwd", "amountCents", "amountCents is in the currency's minor units; for kwd it must be a multiple of 10, such as 5120 or 5130"),
            (100, "dollar", "currency", "currency must be a three-letter ISO 4217 code such as usd, eur or jpy"),
            (100, "XBT", "currency", "currency xbt is not supported; use a three-letter ISO 4217 code that Stripe charges, such as usd, eur or jpy"),
        ];
        for (amount_minor, code, field, text) in table {
            let error = Money::new(amount_minor, code).unwrap_err();
            assert_eq!((error.field(), error.to_string().as_str()), (field, text));
            assert!(text.starts_with(field));
        }
    }

    #[test]
    fn the_currency_is_judged_before_the_amount() {
        assert_eq!(
            Money::new(0, "nope").unwrap_err(),
            MoneyError::MalformedCurrency
        );
    }
}
