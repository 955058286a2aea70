//! Figures as people read them: sizes, rates, durations.
//!
//! Pure. Sizes are binary with one decimal (`1.5 GiB`); dwstat and the directives have forms of their own in the model.

use std::time::Duration;

/// `512 B`, `1.5 MiB`: three figures are enough to compare by eye.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be printed as 1024.0 of the smaller unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Bytes per second over a time; nothing when no time has passed.
pub fn rate(bytes: u64, elapsed: Duration) -> Option<String> {
    let seconds = elapsed.as_secs_f64();
    (seconds > 0.0).then(|| format!("{}/s", size((bytes as f64 / seconds) as u64)))
}

/// `0.12 s`, `12.3 s`, `4:05 min`, `1:02:03 h`.
pub fn duration(elapsed: Duration) -> String {
    let whole = elapsed.as_secs();
    match whole {
        0..10 => format!("{:.2} s", elapsed.as_secs_f64()),
        10..60 => format!("{:.1} s", elapsed.as_secs_f64()),
        60..3600 => format!("{}:{:02} min", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02} h", whole / 3600, whole / 60 % 60, whole % 60),
    }
}

/// `1 file`, `12,345 files`.
pub fn count(number: u64, noun: &str) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let plural = if number == 1 { "" } else { "s" };
    format!("{grouped} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_change_their_unit_where_they_should() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn durations_and_counts() {
        assert_eq!(duration(Duration::from_millis(123)), "0.12 s");
        assert_eq!(duration(Duration::from_millis(12_345)), "12.3 s");
        assert_eq!(duration(Duration::from_secs(245)), "4:05 min");
        assert_eq!(duration(Duration::from_secs(3723)), "1:02:03 h");
        assert_eq!(
            [count(0, "file"), count(1, "file"), count(12_345, "file"), count(1_000_000, "file")],
            ["0 files", "1 file", "12,345 files", "1,000,000 files"]
        );
    }

    #[test]
    fn a_rate_needs_time() {
        assert_eq!(rate(1 << 30, Duration::from_millis(500)).as_deref(), Some("2.0 GiB/s"));
        assert_eq!(rate(5, Duration::ZERO), None);
    }
}
