//! What a statement's parameters and the columns of its result are, in one number.
//!
//! A client that has prepared a statement goes on by what it was told of it then. When the
//! catalogue has changed, a server that has kept the statement refuses to answer with another
//! result; Weir, which may prepare it anew elsewhere, compares.

use std::cell::Cell;
use std::rc::Rc;

/// A number for the types of a statement's parameters and the columns of its result, once a server
/// has described them.
pub type Shape = Rc<Cell<Option<u64>>>;

/// A number for the columns of a RowDescription: their names, types and types' modifiers, which is
/// what a server goes by (`equalTupleDescs`), and not which table they are of. `None` where it is
/// none.
pub fn columns(body: &[u8]) -> Option<u64> {
    let Some((_count, mut rest)) = body.split_first_chunk::<2>() else {
        // NoData.
        return body.is_empty().then_some(0);
    };
    let mut number = 1;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0)?;
        let (name, fields) = (&rest[..end], rest.get(end + 1..end + 19)?);
        // Table (4), column (2), type (4), its length (2), its modifier (4), format (2).
        for part in [name, &fields[6..10], &fields[12..16]] {
            number = number_of(part) ^ u64::rotate_left(number, 5);
        }
        rest = &rest[end + 19..];
    }
    Some(number)
}

/// FNV-1a: what is compared was said by the same servers.
pub fn number_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |number, byte| {
        (number ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
