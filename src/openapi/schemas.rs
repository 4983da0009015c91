//! The schemas that more than one operation uses, made of the same limits and words that the code enforces. A value that
//! a schema here allows in a request is one that the service reads.

use std::borrow::Cow;
use std::collections::BTreeMap;

use utoipa::openapi::schema::{AdditionalProperties, AllOf, AnyOf, Schema, SchemaFormat};
use utoipa::openapi::{KnownFormat, ObjectBuilder, Ref, RefOr, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::access::caller::SESSION_LENGTH_MAX;
use crate::charges::model::ChargeStatus;
use crate::charges::repository::EvidenceKind;
use crate::charges::review::NOTE_LENGTH_MAX;
use crate::error::Code;
use crate::http::query::{PAGE_DEFAULT, PAGE_MAX};
use crate::http::text::{INVOICE_ID_LENGTH_MAX, PROVIDER_ID_LENGTH_MAX};
use crate::idempotency::key::HEADER_KEY_LENGTH_MAX;
use crate::invoices::dto::{
    DESCRIPTION_LENGTH_MAX, METADATA_NAME_LENGTH_MAX, METADATA_PAIRS_MAX, METADATA_VALUE_LENGTH_MAX,
};
use crate::invoices::model::InvoiceStatus;
use crate::money::Currency;
use crate::payments::refund::RefundReason;
use crate::refunds::model::RefundStatus;
use crate::tools::render::Format;
use crate::webhooks::dto::EVENT_TEXT_BYTES_MAX;

/// Text without control characters; the letters of Unicode's category Cc, as [`char::is_control`] has them.
const NO_CONTROLS: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";

/// The same without the square brackets that Stripe reads as nesting.
const NO_CONTROLS_OR_BRACKETS: &str = r"^[^\x00-\x1f\x7f-\x9f\[\]]*$";

/// `InvoiceStatusWord` is the word on the wire for what the code calls `InvoiceStatus`; the document has no need of two names.
fn component_name(name: &'static str) -> &'static str {
    name.strip_suffix("Word").unwrap_or(name)
}

macro_rules! components {
    ($($(#[doc = $doc:literal])+ $name:ident = $schema:expr;)*) => {
        $(
            $(#[doc = $doc])+
            pub struct $name;

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    let text = concat!($($doc),+).trim();
                    $schema.description(Some(text)).build().into()
                }
            }

            impl ToSchema for $name {
                fn name() -> Cow<'static, str> {
                    Cow::Borrowed(component_name(stringify!($name)))
                }
            }
        )*

        /// All of them, by their names.
        pub(super) fn all() -> Vec<(&'static str, RefOr<Schema>)> {
            vec![$((component_name(stringify!($name)), $name::schema()),)*]
        }
    };
}

components! {
    /// An invoice's id: the caller's own number, or one of this service (`inv_…`).
    InvoiceId = text(1, INVOICE_ID_LENGTH_MAX, "^[A-Za-z0-9][A-Za-z0-9._~-]*$");
    /// A charge's id (`chg_…`).
    ChargeId = text(1, PROVIDER_ID_LENGTH_MAX, "^[A-Za-z0-9][A-Za-z0-9._-]*$");
    /// A refund's id (`rfd_…`).
    RefundId = text(1, PROVIDER_ID_LENGTH_MAX, "^[A-Za-z0-9][A-Za-z0-9._-]*$");
    /// An id of the payment provider: a customer, a payment method, a payment or a refund.
    ProviderId = text(1, PROVIDER_ID_LENGTH_MAX, "^[A-Za-z0-9][A-Za-z0-9._-]*$");
    /// A whole number in the currency's minor units: 1250 is USD 12.50, JPY 1250 and KWD 1.250. Written without decimal
    /// point, exponent or quotes.
    AmountCents = amount();
    /// A part of a charge, in the minor units of its currency: as large as the charge at most.
    PartCents = part();
    /// A currency that Stripe charges, as an ISO 4217 code in lower case. Requests may have it in upper case, too.
    CurrencyCode = words(Currency::all().map(Currency::as_str));
    /// Free text for people.
    InvoiceDescription = text(0, DESCRIPTION_LENGTH_MAX, NO_CONTROLS);
    /// The caller's own pairs of text. They are kept and returned, never interpreted.
    Metadata = metadata();
    /// Where an invoice stands. `paid` and `void` never change.
    InvoiceStatusWord = words(InvoiceStatus::ALL.map(InvoiceStatus::as_str));
    /// Where a charge stands. `pending`: sent, or about to be. `processing`: the provider has it and no verdict yet.
    /// `needs_review`: a person must decide. `succeeded` and `failed` never change.
    ChargeStatusWord = words(ChargeStatus::WORDS);
    /// Where a refund stands. `pending`: sent, or about to be. `processing`: the provider has it and no verdict yet.
    /// `needs_review`: a person must decide. `succeeded`, `failed`; and `returned`: it had succeeded, and the bank sent the
    /// money back.
    RefundStatusWord = words(RefundStatus::WORDS);
    /// Why money is given back.
    RefundReasonWord = words(RefundReason::ALL.map(RefundReason::as_str));
    /// What happened to a charge or a refund.
    EvidenceWord = words(EvidenceKind::ALL.map(EvidenceKind::as_str));
    /// What an operator looked at, and who it was.
    Note = text(1, NOTE_LENGTH_MAX, NO_CONTROLS);
    /// A time: RFC 3339, in UTC.
    Time = ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    /// The form of a tool's definition.
    ToolFormat = words(Format::WORDS);
    /// A caller's own name for its session or task.
    SessionName = text(1, SESSION_LENGTH_MAX, "^[!-~]+$");
    /// Seconds to wait before the same call is sent again.
    Seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
    /// The items on a page.
    PageLimit = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(PAGE_MAX)).default(Some(PAGE_DEFAULT.into()));
    /// A position in a list. Opaque: pass the `nextCursor` of the page before.
    Cursor = text(1, 1_000, "^[A-Za-z0-9_-]+$");
    /// A key that names one action: visible ASCII characters and spaces, bare or in double quotes. Both forms are the same key.
    IdempotencyKey = text(1, HEADER_KEY_LENGTH_MAX * 2 + 2, &key_pattern());
    /// `true`: this answer was given before, and nothing was done by this call.
    Replayed = words(["true"]);
    /// The time of signing and what the secrets that are in use make of it and the body, as Stripe writes it.
    StripeSignature = text(68, 3_000, "^t=[0-9]{1,15}(,v1=[0-9a-f]{64}){1,32}(,v0=[0-9a-f]{64}){0,9}$");
    /// An id or a type of Stripe's.
    EventText = text(1, EVENT_TEXT_BYTES_MAX, "^[!-~]+$");
    /// What a snapshot event of Stripe's is.
    EventWord = words(["event"]);
    /// A stable error code. Programs branch on it; titles and details may be reworded.
    ErrorCode = words(Code::ALL.iter().map(|code| code.as_str()));
    /// What kind of problem it is: `urn:chargeonce:problem:` and the code.
    ProblemType = words(Code::ALL.iter().map(|code| format!("urn:chargeonce:problem:{}", code.as_str())));
}

fn text(length_min: usize, length_max: usize, pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(length_min))
        .max_length(Some(length_max))
        .pattern(Some(pattern))
}

fn words(words: impl IntoIterator<Item = impl Into<String>>) -> ObjectBuilder {
    let words: Vec<String> = words.into_iter().map(Into::into).collect();
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(words))
}

/// The widest limits of all currencies; see [`money_rule`] for each.
fn amount() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Currency::all().map(Currency::least_minor).min())
        .maximum(Currency::all().map(Currency::most_minor).max())
}

fn part() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(1))
        .maximum(Currency::all().map(Currency::most_minor).max())
}

fn metadata() -> ObjectBuilder {
    let name = text(1, METADATA_NAME_LENGTH_MAX, NO_CONTROLS_OR_BRACKETS).build();
    let value = text(0, METADATA_VALUE_LENGTH_MAX, NO_CONTROLS);
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .max_properties(Some(METADATA_PAIRS_MAX))
        .property_names(Some(Schema::Object(name)))
        .additional_properties(Some(AdditionalProperties::from(value)))
}

/// Bare, or a Structured Field string.
fn key_pattern() -> String {
    let more = HEADER_KEY_LENGTH_MAX - 1;
    let between = HEADER_KEY_LENGTH_MAX - 2;
    format!(
        r#"^([!#-~]([ -~]{{0,{between}}}[!-~])?|"([!#-\[\]-~]|\\["\\])([ !#-\[\]-~]|\\["\\]){{0,{more}}}")$"#
    )
}

/// What an amount must keep in each currency: one alternative for all currencies with the same limits.
pub(super) fn money_rule(request: RefOr<Schema>) -> RefOr<Schema> {
    let mut groups: BTreeMap<(i64, i64, i64), Vec<&str>> = BTreeMap::new();
    for currency in Currency::all() {
        let limits = (
            currency.least_minor(),
            currency.most_minor(),
            currency.step_minor(),
        );
        groups.entry(limits).or_default().push(currency.as_str());
    }
    let rule = groups
        .into_iter()
        .fold(AnyOf::builder(), |rule, ((least, most, step), codes)| {
            let amount = ObjectBuilder::new()
                .schema_type(Type::Integer)
                .minimum(Some(least))
                .maximum(Some(most))
                .multiple_of(Some(step));
            let alternative = ObjectBuilder::new()
                .schema_type(Type::Object)
                .property("currency", words(codes))
                .property("amountCents", amount);
            rule.item(alternative)
        });
    AllOf::builder().item(request).item(rule).into()
}

/// A success names the payment that took the money; a failure names none.
pub(super) fn verdict_rule(request: RefOr<Schema>) -> RefOr<Schema> {
    proof_rule(request, "providerPaymentId")
}

/// A success names the refund that gave the money back; a failure names none.
pub(super) fn refund_verdict_rule(request: RefOr<Schema>) -> RefOr<Schema> {
    proof_rule(request, "providerRefundId")
}

fn proof_rule(request: RefOr<Schema>, proof: &str) -> RefOr<Schema> {
    let success = ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("outcome", words(["succeeded"]))
        .property(proof, Ref::from_schema_name("ProviderId"))
        .required(proof);
    let failure = ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("outcome", words(["failed"]))
        .property(proof, ObjectBuilder::new().schema_type(Type::Null));
    let rule = AnyOf::builder().item(success).item(failure);
    AllOf::builder().item(request).item(rule).into()
}
