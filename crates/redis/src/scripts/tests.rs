use super::*;
use crate::commands::may_concern_scripts_as_sent;

fn bytes(words: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    put_command(&mut out, words.iter());
    out
}

fn is_concerned(seen: &KnownScripts, words: &[&[u8]]) -> bool {
    let bytes = bytes(words);
    let mut commands = Commands::default();
    commands.cut(&bytes, &Limits::default()).unwrap();
    seen.is_concerned(&commands.command(&bytes))
}

#[test]
fn a_script_that_passed_is_asked_as_a_whole_where_a_server_has_it_no_more() {
    let scripts = Arc::new(Scripts::default());
    let [seen, other] = [KnownScripts::new(scripts.clone()), KnownScripts::new(scripts)];
    // The number is that of redis-cli SCRIPT LOAD "return 1".
    let sha = b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let asked = bytes(&[b"EVALSHA", sha, b"1", b"k", b"a"]);
    assert_eq!(seen.heard(&asked, NOSCRIPT), None, "it never passed");
    let brought = [b"eval" as &[u8], b"return 1", b"0"];
    assert!(is_concerned(&seen, &brought));
    assert_eq!(seen.heard(&bytes(&brought), b"-LOADING\r\n"), None);
    assert_eq!(seen.heard(&asked, NOSCRIPT), None, "no server has run it");
    assert_eq!(seen.heard(&bytes(&brought), b":1\r\n"), None);
    assert!(!is_concerned(&seen, &brought) && is_concerned(&other, &brought));
    let healed = bytes(&[b"EVAL", b"return 1", b"1", b"k", b"a"]);
    for worker in [&seen, &other] {
        assert_eq!(worker.heard(&asked, NOSCRIPT).as_ref(), Some(&healed));
        assert_eq!(worker.heard(&asked, b":1\r\n"), None);
        assert_eq!(worker.heard(&asked, b"-NOSCRIPT of the script's own\r\n"), None);
    }
    let reading = bytes(&[b"EVALSHA_RO", &sha.to_ascii_uppercase(), b"0"]);
    let healed = bytes(&[b"EVAL_RO", b"return 1", b"0"]);
    assert_eq!(seen.heard(&reading, NOSCRIPT), Some(healed));
    let flush = bytes(&[b"SCRIPT", b"FLUSH"]);
    assert_eq!(other.heard(&flush, b"+OK\r\n"), None);
    assert_eq!(seen.heard(&asked, NOSCRIPT), None, "a client had it forgotten");
    assert!(is_concerned(&seen, &brought), "it is learnt again");
}

#[test]
fn what_could_have_said_so_itself_is_never_run_again() {
    let seen = KnownScripts::new(Arc::default());
    for script in [
        "return redis.error_reply(ARGV[1])",
        "return {Err=1}",
        "error('x')",
        "return {['e'..'r'..'r']='NOSCRIPT No matching script. Please use EVAL.'}",
        "local t = {} t[ARGV[1]] = ARGV[2] return t",
        "local t = {} t[k] = ARGV[2] return t",
        "return cjson.decode(ARGV[1])",
        "return cmsgpack.unpack(ARGV[1])",
        "local t = {} rawset(t, ARGV[1], ARGV[2]) return t",
        "return loadstring(ARGV[1])()",
        "local k = 'e'..'r'..'r' KEYS[k] = ARGV[1] return KEYS",
        "for name, f in pairs(redis) do if #name == 11 then return f(ARGV[1]) end end",
        "return [[a",
    ] {
        let script = script.as_bytes();
        assert_eq!(seen.heard(&bytes(&[b"SCRIPT", b"LOAD", script]), b"$40\r\n"), None);
        let asked = bytes(&[b"EVALSHA", &sha_of(script), b"0"]);
        assert_eq!(seen.heard(&asked, NOSCRIPT), None);
    }
}

#[test]
fn what_makes_no_error_of_its_own_is_asked_again() {
    let seen = KnownScripts::new(Arc::default());
    for script in [
        "return redis.call('SET', KEYS[1], ARGV[12])",
        "return {KEYS[1],ARGV[1]}",
        "local all = redis.call('TIME') return all[1]",
    ] {
        let script = script.as_bytes();
        assert_eq!(seen.heard(&bytes(&[b"SCRIPT", b"LOAD", script]), b"$40\r\n"), None);
        let healed = bytes(&[b"EVAL", script, b"0"]);
        assert_eq!(
            seen.heard(&bytes(&[b"EVALSHA", &sha_of(script), b"0"]), NOSCRIPT),
            Some(healed)
        );
    }
}

#[test]
fn scripts_take_no_more_memory_than_they_may() {
    let scripts = Arc::new(Scripts::default());
    let seen = KnownScripts::new(scripts.clone());
    let script = |n: usize| format!("return '{n}{}'", "x".repeat(60_000));
    for n in 0..500 {
        seen.heard(&bytes(&[b"EVAL", script(n).as_bytes(), b"0"]), b":1\r\n");
    }
    let kept = scripts.kept();
    assert!(kept.bytes <= BYTES_MAX && kept.order.len() == kept.by_sha.len());
    drop(kept);
    assert!(scripts.find(&sha_of(script(0).as_bytes())).is_none());
    assert!(scripts.find(&sha_of(script(499).as_bytes())).is_some());
    assert!(seen.seen.borrow().1.len() < 300);
    let long = "x".repeat(SCRIPT_BYTES_MAX + 1);
    assert!(!is_concerned(&seen, &[b"EVAL", long.as_bytes(), b"0"]));
}

#[test]
fn words_of_a_script_are_told_from_a_servers() {
    let seen = KnownScripts::new(Arc::default());
    let may = |words: &[&[u8]]| {
        let (bytes, mut commands) = (bytes(words), Commands::default());
        commands.cut(&bytes, &Limits::default()).unwrap();
        seen.may_have_said(&commands.command(&bytes))
    };
    assert!(!may(&[b"SET", b"k", b"err"]) && !may(&[b"EVAL", b"return 1", b"0"]));
    assert!(may(&[b"eval", b"return redis.error_reply(ARGV[1])", b"0", b"MOVED 1 a:1"]));
    let sha = b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    assert!(may(&[b"EVALSHA", sha, b"0"]), "nobody knows that script");
    seen.heard(&bytes(&[b"EVAL", b"return 1", b"0"]), b":1\r\n");
    assert!(!may(&[b"EVALSHA", sha, b"0"]));
    assert!(may(&[b"fcall", b"f", b"0"]) && may(&[b"FCALL_RO", b"f", b"0"]));
    let concerns = |words: &[&[u8]]| may_concern_scripts_as_sent(&bytes(words));
    assert!(concerns(&[b"evalsha_ro", b"x", b"0"]) && concerns(&[b"SCRIPT", b"FLUSH"]));
    assert!(!concerns(&[b"SET", b"EVAL", b"x"]) && !concerns(&[b"EXISTS", b"x"]));
    assert!(!may_concern_scripts_as_sent(b"") && !may_concern_scripts_as_sent(b"EVAL"));
}
