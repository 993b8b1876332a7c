//! ISO 8601 times as legacy files have them.

use forkline_model::Millis;

/// The latest time that fits the 48 bits of a UUIDv7.
const MS_MAX: i64 = (1 << 48) - 1;

const MS_PER_DAY: i64 = 24 * 60 * 60 * 1000;

/// Reads `YYYY-MM-DD`, or that with `Thh:mm`, `:ss`, a fraction of seconds, and `Z` or an offset
/// `+hh:mm`. A time without offset is UTC: a file means the same everywhere. Days that no month
/// has, and times that no UUIDv7 can carry, are none.
pub(super) fn parse(text: &str) -> Option<Millis> {
    let (date, time) = match text.split_once('T') {
        None => (text, 0),
        Some((date, time)) => (date, time_of_day(time)?),
    };
    let (year, rest) = date.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let (year, month, day) = (digits::<4>(year)?, digits::<2>(month)?, digits::<2>(day)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(is_leap),
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=month_days).contains(&day) {
        return None;
    }
    let ms = day_number(year, month, day) * MS_PER_DAY + time;
    let ms = u64::try_from(ms).ok().filter(|_| ms <= MS_MAX)?;
    Millis::new(ms).ok()
}

/// The number of a day from 1970-01-01, in the Gregorian calendar.
///
/// Years begin in March here, so that the leap day is the last day of a year.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + day_of_year - 719_468
}

/// Milliseconds since midnight UTC; negative or beyond a day where the offset says so.
fn time_of_day(text: &str) -> Option<i64> {
    let (clock, offset) = match text.find(['Z', '+', '-']) {
        None => (text, 0),
        Some(at) => (text.get(..at)?, offset_minutes(text.get(at..)?)?),
    };
    let (hour, rest) = clock.split_once(':')?;
    let (minute, seconds) = match rest.split_once(':') {
        Some((minute, seconds)) => (minute, seconds),
        None => (rest, "00"),
    };
    let (second, fraction) = match seconds.split_once('.') {
        Some((second, fraction)) => (second, fraction_ms(fraction)?),
        None => (seconds, 0),
    };
    let (hour, minute, second) = (digits::<2>(hour)?, digits::<2>(minute)?, digits::<2>(second)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(((hour * 60 + minute - offset) * 60 + second) * 1000 + fraction)
}

fn offset_minutes(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let (hours, minutes) = (digits::<2>(hours)?, digits::<2>(minutes)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 60 + minutes))
}

/// The first three digits of a fraction of seconds.
fn fraction_ms(text: &str) -> Option<i64> {
    // No clock has a finer one; it also keeps a line of digits from being a number.
    let is_fraction = (1..19).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let digits = text.bytes().chain(*b"00").take(3);
    is_fraction.then(|| digits.fold(0, |ms, digit| ms * 10 + i64::from(digit - b'0')))
}

fn digits<const COUNT: usize>(text: &str) -> Option<i64> {
    let is_number = text.len() == COUNT && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn reads_the_forms_that_files_have() {
        for (text, expected) in [
            ("1970-01-01T00:00:00.000Z", Some(0)),
            ("2024-03-01T09:00:00.000Z", Some(1_709_283_600_000)),
            ("2024-03-01T10:00:00.123+01:00", Some(1_709_283_600_123)),
            ("2024-03-01T08:00:00.1239-01:00", Some(1_709_283_600_123)),
            ("2024-03-01T09:00:00Z", Some(1_709_283_600_000)),
            ("2024-03-01T09:00", Some(1_709_283_600_000)),
            ("2024-03-01", Some(1_709_251_200_000)),
            ("2024-02-29T23:59:59.999Z", Some(1_709_251_199_999)),
            ("2026-02-24T10:00:02.5Z", Some(1_771_927_202_500)),
            ("2000-03-01", Some(951_868_800_000)),
            ("yesterday", None),
            ("2024-02-30", None),
            ("2023-02-29", None),
            ("2024-13-01", None),
            ("1969-12-31T23:59:59.999Z", None),
            ("2024-03-01T09:00:00.Z", None),
            ("2024-03-01T24:00:00Z", None),
            ("2024-03-01T09:00:00z", None),
            ("2024-03-01T09:00:00.1234567890123456789Z", None),
            ("", None),
        ] {
            assert_eq!(parse(text).map(forkline_model::Millis::get), expected, "{text}");
        }
    }
}
