//! Anything that a Redis client may send, as any command of Weir's list: its keys are among its
//! arguments. And anything that a server may say of a command: what is taken away is of the list,
//! and where it says that keys are, they are among the arguments, too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use redis::commands::{Do, Keys, Spec, all, blocks, find_numbered, taken};
use redis::unknown::Fact;
use wire::resp::{
    Command, CommandFrame, Commands, Limits, put_array, put_bulk, put_integer, put_simple,
};

fuzz_target!(|input: (&[u8], &[u8], u16, u16, u8)| {
    let (sent, said, number, at, gone) = input;
    let mut answer = info(&all()[usize::from(number) % all().len()]);
    let at = usize::from(at) % (answer.len() + 1);
    let end = (at + usize::from(gone)).min(answer.len());
    answer.splice(at..end, said.iter().copied());
    let mut facts = Vec::new();
    for answer in [said, &answer] {
        let numbers = taken(answer).into_iter().flat_map(std::collections::HashMap::into_keys);
        numbers.for_each(|number| assert!(number < all().len()));
        facts.extend(Fact::read(answer).and_then(|fact| fact.keys));
    }
    each(sent, |command| {
        all().iter().for_each(|spec| check(spec, command));
        for keys in &facts {
            check(&Spec { name: "X", arity: -1, keys: *keys, what: Do::Write }, command);
        }
        if let Some((spec, number)) = find_numbered(command.name()) {
            assert_eq!(spec, &all()[number]);
        }
        let _ = blocks(command);
    });
});

fn check(spec: &Spec, command: &Command<'_>) {
    let Ok(keys) = spec.keys_of(command) else { return };
    let mut count = 0;
    for at in keys.iter() {
        assert!(at > 0 && at < command.len(), "{spec:?}: {at} of {}", command.len());
        count += 1;
    }
    assert!(count <= command.len());
    assert!(spec.keys != Keys::None || count == 0, "{spec:?}");
}

/// Calls `found` with each command there is.
fn each(mut bytes: &[u8], mut found: impl FnMut(&Command<'_>)) {
    let mut commands = Commands::default();
    loop {
        match commands.cut(bytes, &Limits::default()) {
            Ok(CommandFrame::Command(len)) => {
                found(&commands.command(bytes));
                bytes = &bytes[len..];
            }
            Ok(CommandFrame::Nothing(len)) => bytes = &bytes[len..],
            Ok(CommandFrame::More) | Err(_) => return,
        }
    }
}

/// As a server tells of a command with a sub-command.
fn info(spec: &Spec) -> Vec<u8> {
    let mut out = Vec::new();
    put_array(&mut out, 1);
    let name = spec.name.to_ascii_lowercase();
    put_parts(&mut out, &name, 1);
    put_parts(&mut out, &format!("{name}|sub"), 0);
    out
}

/// What is told of one, but for its sub-commands.
fn put_parts(out: &mut Vec<u8>, name: &str, subs: usize) {
    put_array(out, 10);
    put_bulk(out, name.as_bytes());
    put_integer(out, -2);
    put_array(out, 2);
    put_simple(out, b"readonly");
    put_simple(out, b"fast");
    [1, -1, 2].into_iter().for_each(|of| put_integer(out, of));
    put_array(out, 1);
    put_simple(out, b"@read");
    put_array(out, 0);
    put_array(out, 0);
    put_array(out, subs);
}
