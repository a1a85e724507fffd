//! When a certificate ends.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::certificates;

/// Tags of DER (X.690 section 8): what a certificate has up to the end of its validity.
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// When the first certificate of a PEM file ends; `None` where it can't be read.
pub fn not_after(file: &Path) -> Option<SystemTime> {
    let certificate = certificates(file).ok()?.into_iter().next()?;
    ends(&certificate)
}

/// `notAfter` of a certificate (RFC 5280 section 4.1).
fn ends(certificate: &[u8]) -> Option<SystemTime> {
    let (whole, _) = value(certificate, SEQUENCE)?;
    let (mut rest, _) = value(whole, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        rest = value(rest, VERSION)?.1;
    }
    rest = value(rest, INTEGER)?.1;
    // The signature's algorithm, and the issuer.
    rest = value(rest, SEQUENCE)?.1;
    rest = value(rest, SEQUENCE)?.1;
    let (validity, _) = value(rest, SEQUENCE)?;
    let (_, not_after) = time(validity)?;
    Some(time(not_after)?.0)
}

/// The content of the value at the beginning, which has this tag, and what comes behind it.
fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match *length {
        short @ 0..0x80 => (usize::from(short), rest),
        long => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            let wide = bytes.len() <= 4;
            let add = |sum: usize, byte: &u8| (sum << 8) | usize::from(*byte);
            (wide.then(|| bytes.iter().fold(0, add))?, rest)
        }
    };
    (*first == tag).then(|| rest.split_at_checked(length)).flatten()
}

/// A time, and what comes behind it.
fn time(der: &[u8]) -> Option<(SystemTime, &[u8])> {
    let tag = *der.first()?;
    let (text, rest) = value(der, tag)?;
    let (year, text) = match tag {
        UTC_TIME => {
            let (year, text) = text.split_at_checked(2)?;
            let year = digits(year)?;
            // RFC 5280 section 4.1.2.5.1.
            (if year < 50 { 2000 + year } else { 1900 + year }, text)
        }
        GENERALIZED_TIME => {
            let (year, text) = text.split_at_checked(4)?;
            (digits(year)?, text)
        }
        _ => return None,
    };
    let mut parts = text.chunks(2).map(digits);
    let mut part = || parts.next().flatten();
    let (month, day, hour, minute) = (part()?, part()?, part()?, part()?);
    let second = part().unwrap_or(0);
    let seconds = days(year, month, day)? * 86_400 + hour * 3600 + minute * 60 + second;
    Some((SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).ok()?), rest))
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter()
        .try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

/// Days from 1970 to a day, by the calendar's own rules, counted from a March.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::*;

    fn made(year: i32) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(vec!["weir".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 2, 28);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_is_read_in_both_of_its_forms() {
        let seconds = |der: &[u8]| {
            ends(der).unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
        };
        assert_eq!(seconds(&made(2030)), 1_898_467_200);
        assert_eq!(seconds(&made(2060)), 2_845_152_000);
    }

    #[test]
    fn one_that_is_cut_off_has_no_end() {
        let whole = made(2030);
        for length in 0..whole.len() / 4 {
            assert_eq!(ends(&whole[..length]), None, "{length}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
            at in 0_usize..200, other in any::<u8>(),
        ) {
            let _ = ends(&bytes);
            let mut whole = made(2030);
            if let Some(byte) = whole.get_mut(at) {
                *byte = other;
            }
            let _ = ends(&whole);
        }
    }
}
