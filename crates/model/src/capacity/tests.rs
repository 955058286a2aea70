use super::format::{SizeStyle, SizeUnit, exact, format_size};
use super::*;
use proptest::prelude::*;

fn bytes(count: u64) -> Result<Capacity, CapacityError> {
    Ok(Capacity::Bytes(Bytes(count)))
}

#[test]
fn every_unit_has_slurms_meaning_in_any_case() {
    let table = [
        ("", 1),
        ("K", KIB),
        ("KiB", KIB),
        ("M", MIB),
        ("MiB", MIB),
        ("G", GIB),
        ("GiB", GIB),
        ("T", TIB),
        ("TiB", TIB),
        ("P", PIB),
        ("PiB", PIB),
        ("KB", KB),
        ("MB", MB),
        ("GB", GB),
        ("TB", TB),
        ("PB", PB),
    ];
    for (unit, size) in table {
        for unit in [unit.to_string(), unit.to_lowercase(), unit.to_uppercase()] {
            assert_eq!(format!("3{unit}").parse(), bytes(3 * size), "{unit}");
        }
    }
    for unit in ["N", "n", "node", "NODE", "nodes", "Nodes"] {
        assert_eq!(format!("3{unit}").parse(), Ok(Capacity::Nodes(3)), "{unit}");
    }
}

#[test]
fn every_unit_of_the_message_is_one() {
    for unit in UNITS.split(' ') {
        assert!(format!("1{unit}").parse::<Capacity>().is_ok(), "{unit}");
    }
}

#[test]
fn g_is_not_gb() {
    assert_ne!("1G".parse::<Capacity>(), "1GB".parse::<Capacity>());
    assert_eq!("1G".parse::<Capacity>(), "1GiB".parse::<Capacity>());
}

#[test]
fn a_fraction_is_refused_with_its_integer_form() {
    let table = [
        ("3.5TB", "3500GB"),
        ("1.5TiB", "1536GiB"),
        ("0.5G", "512MiB"),
        (".5G", "512MiB"),
        ("3.333333TB", "3333333MB"),
        ("2.25PB", "2250TB"),
        ("1,5GB", "1500MB"),
        ("2.0GB", "2000MB"),
        ("2.GB", "2000MB"),
        ("0.1GiB", "103MiB"),
        ("1.5", "2"),
        ("1.5N", "2N"),
        ("0.25K", "256"),
    ];
    for (text, integer) in table {
        assert_eq!(
            text.parse::<Capacity>(),
            Err(CapacityError::Fraction { text: text.into(), integer: Some(integer.into()) }),
        );
        assert!(integer.parse::<Capacity>().is_ok(), "{integer}");
    }
}

#[test]
fn a_fraction_too_long_to_compute_with_has_no_integer_form() {
    let text = format!("0.{}TB", "1".repeat(60));
    assert_eq!(text.parse::<Capacity>(), Err(CapacityError::Fraction { text, integer: None }));
    assert_eq!(
        "0.0TB".parse::<Capacity>(),
        Err(CapacityError::Fraction { text: "0.0TB".into(), integer: None })
    );
}

#[test]
fn what_is_no_size_is_refused_for_its_reason() {
    use CapacityError::*;
    let owned = String::from;
    let table = [
        ("", Empty),
        (" ", Empty),
        ("0", Zero { text: owned("0") }),
        ("0GB", Zero { text: owned("0GB") }),
        ("000N", Zero { text: owned("000N") }),
        ("+5G", Signed { text: owned("+5G") }),
        ("-5G", Signed { text: owned("-5G") }),
        ("5 GB", Blanks { text: owned("5 GB") }),
        ("5GB ", Blanks { text: owned("5GB ") }),
        ("GB", NotANumber { text: owned("GB") }),
        ("ten", NotANumber { text: owned("ten") }),
        ("5GBs", UnknownUnit { text: owned("5GBs"), unit: owned("GBs") }),
        ("5EB", UnknownUnit { text: owned("5EB"), unit: owned("EB") }),
        ("0x10", UnknownUnit { text: owned("0x10"), unit: owned("x10") }),
        ("1e6", UnknownUnit { text: owned("1e6"), unit: owned("e6") }),
        ("5GB/s", UnknownUnit { text: owned("5GB/s"), unit: owned("GB/s") }),
        ("5\u{b5}B", UnknownUnit { text: owned("5\u{b5}B"), unit: owned("\u{b5}B") }),
        ("1.5XB", UnknownUnit { text: owned("1.5XB"), unit: owned("XB") }),
        ("18446744073709551616", Overflow { text: owned("18446744073709551616") }),
        ("16384P", Overflow { text: owned("16384P") }),
    ];
    for (text, error) in table {
        assert_eq!(text.parse::<Capacity>(), Err(error), "{text:?}");
    }
    assert_eq!("18446744073709551615".parse(), bytes(u64::MAX));
    assert_eq!("0016G".parse(), bytes(16 * GIB));
}

#[test]
fn nodes_are_no_bytes() {
    assert_eq!(parse_bytes("2N"), Err(CapacityError::Nodes { text: "2N".into() }));
    assert_eq!(parse_bytes("2G"), Ok(Bytes(2 * GIB)));
}

#[test]
fn slurms_form_takes_the_largest_unit_that_divides() {
    let table = [
        (200 * GB, "200GB"),
        (1000 * GB, "1TB"),
        (600 * GIB, "600GiB"),
        (82_496 * MIB, "82496MiB"),
        (247_488 * MIB, "247488MiB"),
        (PIB, "1PiB"),
        (EIB, "1024PiB"),
        (EB, "1000PB"),
        (1_024_000, "1000KiB"),
        (1_000_000, "1MB"),
        (1_025, "1025"),
        (1, "1"),
        (0, "0"),
    ];
    for (size, text) in table {
        assert_eq!(exact(Bytes(size)), text);
    }
    assert_eq!(Capacity::Nodes(2).to_string(), "2N");
    assert_eq!(format!("{:>6}", Capacity::Bytes(Bytes(GIB))), "  1GiB");
}

#[test]
fn dwstat_shows_binary_units_with_up_to_two_decimals() {
    let table = [
        (406_976 * MIB, "397.44GiB"),
        (3 * PIB / 2, "1.5PiB"),
        (16 * MIB, "16MiB"),
        (32 * GIB, "32GiB"),
        (582 * TIB / 100, "5.82TiB"),
        (813_952 * MIB, "794.88GiB"),
        (512 * MIB, "512MiB"),
        (GIB + GIB / 100 * 5, "1.05GiB"),
        (TIB - 1, "1TiB"),
        (1023 * GIB, "1023GiB"),
        (KIB, "1KiB"),
        (1023, "1023B"),
        (0, "0"),
        (u64::MAX, "16EiB"),
    ];
    for (size, text) in table {
        assert_eq!(format_size(Bytes(size), SizeStyle::Binary), text, "{size}");
    }
}

#[test]
fn dwstat_options_choose_other_units() {
    let gran = Bytes(368 * GIB);
    assert_eq!(format_size(gran, SizeStyle::Bytes), "395136991232");
    assert_eq!(format_size(gran, SizeStyle::Si), "395.14GB");
    assert_eq!(format_size(Bytes(1_500 * TB), SizeStyle::Si), "1.5PB");
    let fixed = |letter| format_size(gran, SizeStyle::Fixed(SizeUnit::from_option(letter).unwrap()));
    let table = [
        ('k', "385875968.00KiB"),
        ('m', "376832.00MiB"),
        ('g', "368.00GiB"),
        ('t', "0.36TiB"),
        ('p', "0.00PiB"),
        ('e', "0.00EiB"),
        ('K', "395136991.23KB"),
        ('M', "395136.99MB"),
        ('G', "395.14GB"),
        ('T', "0.40TB"),
        ('P', "0.00PB"),
        ('E', "0.00EB"),
    ];
    for (letter, text) in table {
        assert_eq!(fixed(letter), text);
    }
    assert_eq!(SizeUnit::from_option('b'), None);
}

proptest! {
    #[test]
    fn a_printed_capacity_reads_as_itself(size in 1..=u64::MAX, multiple in prop::sample::select(vec![1, KB, KIB, GB, GIB, PIB])) {
        let capacity = Capacity::Bytes(Bytes(size.checked_mul(multiple).unwrap_or(size)));
        prop_assert_eq!(capacity.to_string().parse(), Ok(capacity));
        prop_assert_eq!(Capacity::Nodes(size).to_string().parse(), Ok(Capacity::Nodes(size)));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,24}") {
        let _ = text.parse::<Capacity>();
    }

    #[test]
    fn text_like_a_size_is_read_or_refused(text in "[-+ 0-9.,]{0,20}[kKmMgGtTpPiIbBnN. ]{0,5}") {
        if let Ok(Capacity::Bytes(Bytes(size))) = text.parse::<Capacity>() {
            prop_assert!(size > 0);
            let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
            prop_assert_eq!(size % digits.parse::<u64>().unwrap(), 0);
        }
    }

    #[test]
    fn an_integer_form_is_at_least_the_fraction(whole in 0..100_000_u64, tail in 0..1_000_u64, unit in "[KMGTP](iB|B)?") {
        let text = format!("{whole}.{tail:03}{unit}");
        match text.parse::<Capacity>() {
            Err(CapacityError::Fraction { integer: Some(integer), .. }) => {
                let Ok(Capacity::Bytes(Bytes(got))) = integer.parse() else { return Ok(()) }; // beyond 2^64
                let Ok(Capacity::Bytes(Bytes(one))) = format!("1{unit}").parse() else { unreachable!() };
                let thousandths = u128::from(one) * u128::from(whole * 1000 + tail);
                let over = u128::from(got) * 1000 - thousandths;
                prop_assert!(over < u128::from(one), "{text} -> {integer}");
            }
            Err(CapacityError::Fraction { integer: None, .. }) => prop_assert_eq!((whole, tail), (0, 0)),
            other => prop_assert!(false, "{text}: {other:?}"),
        }
    }

    #[test]
    fn a_shown_size_is_off_by_half_a_hundredth_of_its_unit_at_most(size in any::<u64>(), shift in 0..64_u32) {
        let size = size >> shift;
        for (style, step) in [(SizeStyle::Binary, 1024_f64), (SizeStyle::Si, 1000_f64)] {
            let shown = format_size(Bytes(size), style);
            let number: String = shown.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
            let unit = &shown[number.len()..];
            let power = "KMGTPE".find(|c| unit.starts_with(c)).map_or(0, |place| place + 1);
            let one = step.powi(i32::try_from(power).unwrap());
            let off = (number.parse::<f64>().unwrap() * one - size as f64).abs();
            prop_assert!(off <= 0.0051 * one, "{size} shown as {shown}");
        }
    }
}
