//! The usage ledger: cost rows and their field-wise sum (contract §1).

use serde::{Deserialize, Serialize, Serializer};

use crate::address::{EntryId, Seq};
use crate::error::{Error, Result};
use crate::json::Json;

/// A cost row before it has a seq.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUsage {
    /// Its id; shares one name space with the entries.
    pub id: EntryId,
    /// The entry it belongs to, if any; not checked, as in existing files.
    pub entry: Option<EntryId>,
    /// Whether it corrects earlier rows.
    pub adjustment: bool,
    /// The numbers, as they came.
    pub usage: Json,
    /// Free details.
    pub details: Option<Json>,
}

impl NewUsage {
    /// A row whose usage can be summed.
    pub fn new(
        id: EntryId,
        entry: Option<EntryId>,
        adjustment: bool,
        usage: Json,
        details: Option<Json>,
    ) -> Result<Self> {
        Usage::parse(&usage)?;
        Ok(Self { id, entry, adjustment, usage, details })
    }
}

/// A cost row as it stands in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRow {
    /// Its id.
    pub id: EntryId,
    /// The entry it belongs to, if any.
    pub entry: Option<EntryId>,
    /// Whether it corrects earlier rows.
    pub adjustment: bool,
    /// The numbers, as they came.
    pub usage: Json,
    /// Free details.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "Json::deserialize_present"
    )]
    pub details: Option<Json>,
    /// The seq of its insert.
    pub seq: Seq,
}

/// Sums of usage. Numbers are doubles, added in seq order, as every reader of these files does:
/// so a running sum and a recount agree to the bit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Input tokens.
    #[serde(serialize_with = "plain")]
    pub input: f64,
    /// Output tokens.
    #[serde(serialize_with = "plain")]
    pub output: f64,
    /// Tokens read from a cache.
    #[serde(serialize_with = "plain")]
    pub cache_read: f64,
    /// Tokens written to a cache.
    #[serde(serialize_with = "plain")]
    pub cache_write: f64,
    /// All tokens.
    #[serde(serialize_with = "plain")]
    pub total_tokens: f64,
    /// Money.
    pub cost: Cost,
    /// Tokens written to a one-hour cache, if any row counts them.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "plain_option")]
    pub cache_write1h: Option<f64>,
    /// Tokens spent on reasoning, if any row counts them.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "plain_option")]
    pub reasoning: Option<f64>,
}

/// The money part of [`Usage`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cost {
    /// For input tokens.
    #[serde(serialize_with = "plain")]
    pub input: f64,
    /// For output tokens.
    #[serde(serialize_with = "plain")]
    pub output: f64,
    /// For cache reads.
    #[serde(serialize_with = "plain")]
    pub cache_read: f64,
    /// For cache writes.
    #[serde(serialize_with = "plain")]
    pub cache_write: f64,
    /// In all.
    #[serde(serialize_with = "plain")]
    pub total: f64,
}

impl Usage {
    /// Reads the numbers of a row. An absent field counts as zero; unknown fields are passed over.
    ///
    /// # Errors
    /// *Invalid payload* when it is no object, or a known field is no finite number.
    pub fn parse(usage: &Json) -> Result<Self> {
        let invalid = |reason: String| Error::InvalidPayload { what: "usage", reason };
        let found = crate::members::members(usage.as_str())
            .map_err(|error| invalid(format!("no JSON object: {error}")))?;
        let number = |found: &[crate::members::Member<'_>], name| -> Result<Option<f64>> {
            let Some(text) = crate::members::last(found, name) else { return Ok(None) };
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            number.map(Some).ok_or_else(|| invalid(format!("{name} is no finite number")))
        };
        let mut sum = Self {
            input: number(&found, "input")?.unwrap_or(0.0),
            output: number(&found, "output")?.unwrap_or(0.0),
            cache_read: number(&found, "cacheRead")?.unwrap_or(0.0),
            cache_write: number(&found, "cacheWrite")?.unwrap_or(0.0),
            total_tokens: number(&found, "totalTokens")?.unwrap_or(0.0),
            cost: Cost::default(),
            cache_write1h: number(&found, "cacheWrite1h")?,
            reasoning: number(&found, "reasoning")?,
        };
        if let Some(cost) = crate::members::last(&found, "cost") {
            let cost = crate::members::members(cost)
                .map_err(|error| invalid(format!("cost is no JSON object: {error}")))?;
            sum.cost = Cost {
                input: number(&cost, "input")?.unwrap_or(0.0),
                output: number(&cost, "output")?.unwrap_or(0.0),
                cache_read: number(&cost, "cacheRead")?.unwrap_or(0.0),
                cache_write: number(&cost, "cacheWrite")?.unwrap_or(0.0),
                total: number(&cost, "total")?.unwrap_or(0.0),
            };
        }
        Ok(sum)
    }

    /// Adds one row.
    pub fn add(&mut self, row: &Self) {
        self.input += row.input;
        self.output += row.output;
        self.cache_read += row.cache_read;
        self.cache_write += row.cache_write;
        self.total_tokens += row.total_tokens;
        self.cost.input += row.cost.input;
        self.cost.output += row.cost.output;
        self.cost.cache_read += row.cost.cache_read;
        self.cost.cache_write += row.cost.cache_write;
        self.cost.total += row.cost.total;
        let sum = |left: Option<f64>, right: Option<f64>| match (left, right) {
            (None, None) => None,
            (left, right) => Some(left.unwrap_or(0.0) + right.unwrap_or(0.0)),
        };
        self.cache_write1h = sum(self.cache_write1h, row.cache_write1h);
        self.reasoning = sum(self.reasoning, row.reasoning);
    }

    /// The sums as JSON, whole numbers without a fraction.
    pub fn to_json(&self) -> Json {
        let text = serde_json::to_string(self).expect("sums always have a JSON form");
        Json::parse(&text).expect("what serde_json writes is JSON")
    }
}

/// The statistics of a session: what a recount of entries and ledger gives (contract §1).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Number of `message` entries.
    pub message_count: u64,
    /// Field-wise sum of the ledger.
    pub usage: Usage,
}

/// Writes a whole number without a fraction, as existing writers do.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn plain<S: Serializer>(number: &f64, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
        serializer.serialize_i64(*number as i64)
    } else {
        serializer.serialize_f64(*number)
    }
}

#[expect(clippy::ref_option, reason = "the signature that serde asks for")]
fn plain_option<S: Serializer>(
    number: &Option<f64>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    match number {
        Some(number) => plain(number, serializer),
        None => serializer.serialize_none(),
    }
}
