//! Comparison of JSON for engines that parse and write again (the engine protocol of the gate).
//!
//! Works on a token list with explicit stacks: deep payloads cost no stack.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// Whether two JSON texts are the same value to a reader that keeps numbers as doubles.
pub(crate) fn equal(left: &str, right: &str) -> bool {
    let mut pairs = vec![(left.to_owned(), right.to_owned())];
    while let Some((left, right)) = pairs.pop() {
        let (left, right) = (left.trim(), right.trim());
        if left == right {
            continue;
        }
        match (left.as_bytes().first(), right.as_bytes().first()) {
            (Some(b'{'), Some(b'{')) => {
                let (Some(left), Some(right)) = (object(left), object(right)) else { return false };
                if !left.keys().eq(right.keys()) {
                    return false;
                }
                pairs.extend(left.into_values().zip(right.into_values()));
            }
            (Some(b'['), Some(b'[')) => {
                let (Some(left), Some(right)) = (array(left), array(right)) else { return false };
                if left.len() != right.len() {
                    return false;
                }
                pairs.extend(left.into_iter().zip(right));
            }
            (Some(b'"'), Some(b'"')) => {
                if units(left) != units(right) {
                    return false;
                }
            }
            _ => {
                if !same_number(left, right) {
                    return false;
                }
            }
        }
    }
    true
}

/// Doubles, with what a JavaScript writer makes of infinities: `1e400` and `-1e400` are both
/// written as `null`.
fn same_number(left: &str, right: &str) -> bool {
    let double = |text: &str| match text {
        "null" => Some(f64::INFINITY),
        _ => text.parse::<f64>().ok().map(|n| if n.is_infinite() { f64::INFINITY } else { n }),
    };
    match (double(left), double(right)) {
        (Some(left), Some(right)) => left.total_cmp(&right).is_eq() || both_zero(left, right),
        _ => false,
    }
}

fn both_zero(left: f64, right: f64) -> bool {
    left.abs().total_cmp(&0.0).is_eq() && right.abs().total_cmp(&0.0).is_eq()
}

fn object(text: &str) -> Option<BTreeMap<Vec<u16>, String>> {
    let members = crate::members::members(text).ok()?;
    Some(members.into_iter().map(|(name, value)| (units(&name), value.to_owned())).collect())
}

fn array(text: &str) -> Option<Vec<String>> {
    let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(items.into_iter().map(|item| item.get().to_owned()).collect())
}

/// The UTF-16 code units of a JSON string, so that lone surrogates compare too.
fn units(quoted: &str) -> Vec<u16> {
    let mut units = Vec::new();
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => match chars.next() {
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&digits, 16).unwrap_or_default());
                    continue;
                }
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some(other) => other,
                None => continue,
            },
            other => other,
        };
        units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    }
    units
}

#[cfg(test)]
mod tests {
    use super::equal;

    #[test]
    fn numbers_are_doubles_and_members_merge() {
        for (left, right) in [
            ("1.0", "1"),
            ("12345678901234567890", "12345678901234567000"),
            (r#"{"a":1,"b":2}"#, r#"{"b":2.0,"a":1}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#""\u0041\/""#, r#""A/""#),
            ("1e400", "null"),
            ("-1e400", "null"),
            ("[1e999,-1e999]", "[null,null]"),
            ("-0", "0"),
            (r#""\ud800""#, r#""\uD800""#),
        ] {
            assert!(equal(left, right), "{left} {right}");
        }
        for (left, right) in [
            ("1", "2"),
            ("1", "true"),
            ("true", "false"),
            ("1e300", "null"),
            ("0", "null"),
            ("[1,2]", "[2,1]"),
            (r#"{"a":1}"#, r#"{"b":1}"#),
            (r#""a""#, r#""b""#),
            ("[]", "{}"),
        ] {
            assert!(!equal(left, right), "{left} {right}");
        }
    }
}
