//! Integers as JavaScript reads them.

/// Largest integer that a double holds together with all smaller ones: 2^53 - 1.
const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

/// Digits that always fit below [`SAFE_INTEGER_MAX`].
const SHORT_DIGITS: usize = 15;

/// The integer from 0 to 2^53 - 1 that `JSON.parse` makes of a JSON number's text; `None` for
/// any other number.
///
/// The text is read as a double first, so `5.0`, `5e0` and `50e-1` are 5 (formats §1), and a
/// fraction too small for a double to tell is none.
pub fn as_integer(text: &str) -> Option<u64> {
    if text.len() <= SHORT_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let number: f64 = text.parse().ok()?;
    #[expect(clippy::cast_precision_loss, reason = "2^53 - 1 is a double")]
    let range = 0.0..=SAFE_INTEGER_MAX as f64;
    if !range.contains(&number) || number.fract() != 0.0 {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked: integral and in range"
    )]
    Some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_integers_as_json_parse_does() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("-0.0e7", Some(0)),
            ("7", Some(7)),
            ("5.0", Some(5)),
            ("5e0", Some(5)),
            ("50e-1", Some(5)),
            ("5.5", None),
            ("-1", None),
            ("999999999999999", Some(999_999_999_999_999)),
            ("9007199254740991", Some(9_007_199_254_740_991)),
            ("9007199254740991.0", Some(9_007_199_254_740_991)),
            ("9007199254740990.6", Some(9_007_199_254_740_991)),
            ("9007199254740992", None),
            ("9007199254740993", None),
            ("1e400", None),
            ("1e-400", Some(0)),
            ("1e15", Some(1_000_000_000_000_000)),
            ("4.9e-324", None),
            ("", None),
            ("inf", None),
            ("nan", None),
        ] {
            assert_eq!(as_integer(text), expected, "{text}");
        }
    }
}
