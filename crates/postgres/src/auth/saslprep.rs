//! SASLprep (RFC 4013) as PostgreSQL's `pg_saslprep` does it, which servers' verifiers and libpq go
//! by: prohibited characters and directions are looked for after the mapping and before the
//! normalisation, where the RFC has it the other way round.

use std::borrow::Cow;

use stringprep::tables;
use unicode_normalization::UnicodeNormalization as _;

/// The password prepared; as it is where SASLprep does not apply: not UTF-8, prohibited
/// characters, nothing left.
pub(super) fn saslprep(password: &[u8]) -> Cow<'_, [u8]> {
    match str::from_utf8(password).ok().and_then(prepared) {
        Some(text) => Cow::Owned(text.into_bytes()),
        None => Cow::Borrowed(password),
    }
}

fn prepared(text: &str) -> Option<String> {
    // ASCII stays as it is, control characters too.
    if text.is_ascii() {
        return None;
    }
    let to_space = |c| if tables::non_ascii_space_character(c) { ' ' } else { c };
    let mapped = text.chars().map(to_space);
    let mapped: String = mapped.filter(|c| !tables::commonly_mapped_to_nothing(*c)).collect();
    let allowed = !mapped.is_empty() && !mapped.contains(is_prohibited) && directions_fit(&mapped);
    allowed.then(|| mapped.nfkc().collect())
}

/// Tables C.1.2 to C.9 and A.1 of RFC 3454.
fn is_prohibited(c: char) -> bool {
    tables::non_ascii_space_character(c)
        || tables::ascii_control_character(c)
        || tables::non_ascii_control_character(c)
        || tables::private_use(c)
        || tables::non_character_code_point(c)
        || tables::surrogate_code(c)
        || tables::inappropriate_for_plain_text(c)
        || tables::inappropriate_for_canonical_representation(c)
        || tables::change_display_properties_or_deprecated(c)
        || tables::tagging_character(c)
        || tables::unassigned_code_point(c)
}

/// RFC 3454, section 6: what is written from right to left is so throughout.
fn directions_fit(text: &str) -> bool {
    !text.contains(tables::bidi_r_or_al)
        || (!text.contains(tables::bidi_l)
            && text.starts_with(tables::bidi_r_or_al)
            && text.ends_with(tables::bidi_r_or_al))
}
