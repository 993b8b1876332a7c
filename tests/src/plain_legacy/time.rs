//! ISO 8601 times by counting days, one by one.

use forkline_model::Millis;

/// The latest time that fits the 48 bits of a UUIDv7.
const MS_MAX: i64 = (1 << 48) - 1;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Reads `YYYY-MM-DD`, or that with `Thh:mm`, `:ss`, a fraction, and `Z` or an offset. A time
/// without offset is UTC. What stands before 1970 or after the year 10889 is none.
pub(super) fn parse(text: &str) -> Option<Millis> {
    if !text.is_ascii() {
        return None;
    }
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = digits(parts.next()?, 2)?;
    let day = digits(parts.next()?, 2)?;
    if parts.next().is_some() {
        return None;
    }
    let mut ms = days_before(year, month, day)? * DAY_MS;
    if let Some(time) = time {
        ms += time_ms(time)?;
    }
    let ms = (0..=MS_MAX).contains(&ms).then_some(ms)?;
    Millis::new(u64::try_from(ms).ok()?).ok()
}

fn digits(text: &str, count: usize) -> Option<i64> {
    let all = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok())?
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01, if there is such a day.
fn days_before(year: i64, month: i64, day: i64) -> Option<i64> {
    let exists = year >= 1970 && (1..=12).contains(&month) && day >= 1;
    if !exists || day > days_of(year, month) {
        return None;
    }
    let years: i64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let months: i64 = (1..month).map(|month| days_of(year, month)).sum();
    Some(years + months + day - 1)
}

/// Milliseconds of a time of day, less its offset.
fn time_ms(text: &str) -> Option<i64> {
    let (clock, offset) = if let Some(clock) = text.strip_suffix('Z') {
        (clock, 0)
    } else if let Some(at) = text.find(['+', '-']) {
        let (hours, minutes) = text[at + 1..].split_once(':')?;
        let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
        if hours > 23 || minutes > 59 {
            return None;
        }
        let minutes = hours * 60 + minutes;
        (&text[..at], if text[at..].starts_with('-') { -minutes } else { minutes })
    } else {
        (text, 0)
    };
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 2).filter(|&hour| hour < 24)?;
    let minute = digits(parts.next()?, 2).filter(|&minute| minute < 60)?;
    let seconds = parts.next();
    if parts.next().is_some() {
        return None;
    }
    let ms = seconds.map_or(Some(0), seconds_ms)?;
    Some((hour * 60 + minute - offset) * 60_000 + ms)
}

fn seconds_ms(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let second = digits(whole, 2).filter(|&second| second < 60)?;
    digits(fraction, fraction.len()).filter(|_| !fraction.is_empty() && fraction.len() < 19)?;
    let three: String = fraction.chars().chain("000".chars()).take(3).collect();
    Some(second * 1000 + digits(&three, 3)?)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn reads_the_forms_that_real_files_have() {
        for (text, expected) in [
            ("1970-01-01T00:00:00.000Z", Some(0)),
            ("2024-03-01T09:00:00.000Z", Some(1_709_283_600_000)),
            ("2024-03-01T10:00:00.123+01:00", Some(1_709_283_600_123)),
            ("2024-03-01T09:00:00Z", Some(1_709_283_600_000)),
            ("2024-03-01", Some(1_709_251_200_000)),
            ("2026-02-24T10:00:02.5Z", Some(1_771_927_202_500)),
            ("2024-03-01T09:00", Some(1_709_283_600_000)),
            ("yesterday", None),
            ("2024-02-30", None),
            ("1969-12-31T23:59:59.999Z", None),
            ("2024-03-01T09:00:00.Z", None),
            ("2024-03-01T24:00:00Z", None),
            ("", None),
        ] {
            assert_eq!(parse(text).map(forkline_model::Millis::get), expected, "{text}");
        }
    }
}
