//! Back from a text whose constants were lifted out (see [`Lifted`](super::Lifted)) to the one that
//! the client has written. Places are counted in characters from 1, as a server counts them in the
//! position of an error (field `P`); texts are UTF-8 or ASCII.

use super::lexer::Lexer;
use super::token::{Strings, TokenKind};

/// Where a token stands in both texts, in characters from 0.
struct TokenPlace {
    written: usize,
    lifted: usize,
    /// Characters that it has in the lifted text.
    len: usize,
    is_constant: bool,
}

/// Where the character at `position` of the lifted text comes from in `text`; of a parameter, where
/// its constant begins. `None` where there is no such character.
pub fn written_position(text: &[u8], strings: Strings, position: usize) -> Option<usize> {
    let at = position.checked_sub(1)?;
    let place = places(text, strings).find(|place| at <= place.lifted + place.len)?;
    let within = if place.is_constant { 0 } else { at.checked_sub(place.lifted)? };
    Some(place.written + within + 1)
}

/// Where the constant begins in `text` that was lifted out as the parameter of this number.
pub fn constant_position(text: &[u8], strings: Strings, parameter: usize) -> Option<usize> {
    let mut constants = places(text, strings).filter(|place| place.is_constant);
    Some(constants.nth(parameter.checked_sub(1)?)?.written + 1)
}

fn places(text: &[u8], strings: Strings) -> impl Iterator<Item = TokenPlace> {
    let (mut constants, mut lifted, mut written, mut counted) = (0_usize, 0, 0, 0);
    Lexer::new(text, strings).map(move |token| {
        written += characters(text.get(counted..token.start).unwrap_or_default());
        counted = token.start;
        let is_constant = matches!(token.kind, TokenKind::Number | TokenKind::String);
        constants += usize::from(is_constant);
        let len = match is_constant {
            true => 2 + constants.ilog10() as usize,
            false => characters(token.text),
        };
        let place = TokenPlace { written, lifted, len, is_constant };
        // There is a blank behind each.
        lifted += len + 1;
        place
    })
}

fn characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| !matches!(byte, 0x80..0xc0)).count()
}

#[cfg(test)]
mod tests {
    use super::super::Lifted;
    use super::*;

    #[test]
    fn each_token_is_found_where_the_client_has_written_it() {
        let text =
            "UPDATE  Straße SET a='é''x',b = 12 , c=-3.5\n WHERE n IN (1,2,3,4,5,6,7,8) AND z='q'";
        let mut lifted = Lifted::default();
        assert!(lifted.lift(text.as_bytes(), Strings::Standard));
        let shown = String::from_utf8(lifted.text.clone()).unwrap();
        let written: Vec<char> = text.chars().collect();
        let made: Vec<char> = shown.chars().collect();
        let mut parameters = 0;
        for position in 1..=made.len() {
            let found = written_position(text.as_bytes(), Strings::Standard, position).unwrap();
            match made[position - 1] {
                '$' => {
                    parameters += 1;
                    let strings = Strings::Standard;
                    let constant = constant_position(text.as_bytes(), strings, parameters);
                    assert_eq!(constant, Some(found));
                    assert!(matches!(written[found - 1], '\'' | '0'..='9'), "{position}");
                }
                // Within the name of a parameter, or between tokens.
                '0'..='9' | ' ' => {}
                character => assert_eq!(written[found - 1], character, "{position}"),
            }
        }
        assert_eq!(parameters, usize::from(lifted.count));
        let beyond = made.len() + 1;
        for (of, position) in [(text, 0), (text, beyond), ("", 1)] {
            assert_eq!(written_position(of.as_bytes(), Strings::Standard, position), None);
        }
        for parameter in [0, parameters + 1] {
            assert_eq!(constant_position(text.as_bytes(), Strings::Standard, parameter), None);
        }
    }
}
