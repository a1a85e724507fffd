//! Anything that may lie in an increment, and an increment that Weir wrote with anything in it: it
//! is read to its end, and what is taken for sound is sound when it stands alone.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use redis::replica::lines::{Id, Line};
use redis::replica::scan::{Tail, put_select, scan};
use wire::resp::put_command;

static INTACT: OnceLock<Vec<u8>> = OnceLock::new();

fuzz_target!(|input: (&[u8], u16, u8)| {
    let (bytes, at, gone) = input;
    check(bytes);
    let mut file = INTACT.get_or_init(intact).clone();
    let at = usize::from(at) % (file.len() + 1);
    let end = (at + usize::from(gone)).min(file.len());
    file.splice(at..end, bytes.iter().copied());
    check(&file);
});

fn check(file: &[u8]) {
    let Ok(found) = scan(&mut &*file) else { return };
    let kept = usize::try_from(found.end.at).expect("it lies within the file");
    let again = scan(&mut &file[..kept]).expect("what was sound is sound");
    assert_eq!((again.end, again.tail), (found.end, Tail::None));
}

fn intact() -> Vec<u8> {
    let id = Id::read(&[b'a'; 40]).expect("an id");
    let (mut file, mut from, mut offset) = (Vec::new(), 0, 7);
    Line::Begin { id, offset, database: 1 }.put(&mut file);
    put_select(&mut file, 1);
    for n in 0..20 {
        Line::Time(n).put(&mut file);
        let begun = file.len();
        put_command(&mut file, ["SET", &n.to_string(), "value"].iter());
        offset += (file.len() - begun) as u64;
        Line::Mark { offset, crc: crc32c::crc32c(&file[from..]) }.put(&mut file);
        from = file.len();
    }
    file
}
