//! Each arm of the way of a command, and what is refused while something holds.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use wire::resp::{CommandFrame, Commands, Limits, put_command};

use super::*;
use crate::commands::{Kind, Split, find};

/// A user before one server, who holds nothing.
const PLAIN: ClientStanding = ClientStanding {
    who: Who::User,
    pool: PoolFacts { only: Some(0), is_cluster: false },
    subscription: Subscription::None,
    transaction: TransactionStanding::None,
    tracks: false,
};

const SEVERAL: ClientStanding =
    ClientStanding { pool: PoolFacts { only: None, is_cluster: false }, ..PLAIN };

const CLUSTER: ClientStanding =
    ClientStanding { pool: PoolFacts { only: None, is_cluster: true }, ..PLAIN };

const BEGUN: ClientStanding = ClientStanding { transaction: TransactionStanding::Begun, ..PLAIN };

const WATCHING: ClientStanding =
    ClientStanding { transaction: TransactionStanding::Watching { place: 3 }, ..PLAIN };

const TRACKING: ClientStanding = ClientStanding { tracks: true, ..PLAIN };

const IN_MODE: ClientStanding = ClientStanding { subscription: Subscription::Mode, ..PLAIN };

/// What becomes of a line, of which a server says otherwise than the list or not.
fn said(line: &str, is_taken_away: bool, standing: ClientStanding) -> Dispatched {
    let (mut commands, bytes) = (Commands::default(), format!("{line}\r\n"));
    let cut = commands.cut(bytes.as_bytes(), &Limits::default()).unwrap();
    assert!(matches!(cut, CommandFrame::Command(_)), "{line}");
    let command = &commands.command(bytes.as_bytes());
    let (spec, is_for_admins) = (find(command.name()), false);
    let facts = CommandFacts { spec, command, is_for_admins, is_taken_away };
    dispatch(&facts, &standing)
}

fn route_of(line: &str, standing: ClientStanding) -> CommandRoute {
    match said(line, false, standing) {
        Ok(Dispatch::Listed { route, .. }) => route,
        other => panic!("{line}: {other:?}"),
    }
}

fn words_of(line: &str, standing: ClientStanding) -> String {
    match said(line, false, standing) {
        Err(Refusal::Words(words)) => words.into_owned(),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn each_command_has_its_way() {
    use CommandRoute as To;
    for (line, route) in [
        ("GET k", To::Read),
        ("set k v", To::Write),
        ("XREAD STREAMS s 0", To::Read),
        ("XREAD BLOCK 0 STREAMS s 0", To::Block),
        ("XREADGROUP GROUP g c STREAMS s >", To::Write),
        ("XREADGROUP GROUP g c BLOCK 0 STREAMS s >", To::Block),
        ("BLPOP k 0", To::Block),
        ("TIME", To::Any),
        ("MGET a b", To::Split(Split::Mget)),
        ("KEYS *", To::All(All::Concat)),
        ("SCAN 0", To::Scan),
        ("SCRIPT LOAD x", To::Manage(ManagingCommand::Changes)),
        ("FUNCTION LIST", To::Manage(ManagingCommand::AsksOne)),
        ("WAIT 0 0", To::Wait),
        ("SUBSCRIBE c", To::Subscribe(Kind::Channel)),
        ("PUNSUBSCRIBE", To::Unsubscribe(Kind::Pattern)),
        ("PUBSUB NUMPAT", To::Pubsub(PubsubCommand::NumPat)),
        ("PING", To::Own(OwnAnswer::Pong)),
        ("PING x", To::Own(OwnAnswer::Echo)),
        ("COMMAND", To::Any),
        ("CLIENT ID", To::Own(OwnAnswer::Client(ClientCommand::Id))),
        ("client no-evict on", To::Own(OwnAnswer::Client(ClientCommand::StaysOff))),
        ("CONFIG GET x", To::Own(OwnAnswer::ConfigGet)),
        ("SLOWLOG LEN", To::Own(OwnAnswer::Slowlog(SlowlogCommand::Len))),
        ("LATENCY RESET x", To::Own(OwnAnswer::Latency(LatencyCommand::Reset))),
        ("FUNCTION KILL", To::Manage(ManagingCommand::KillsFunction)),
        ("MULTI", To::Transaction(TransactionCommand::Multi)),
        ("WATCH k", To::Transaction(TransactionCommand::Watch)),
        ("UNWATCH", To::Transaction(TransactionCommand::Unwatch)),
    ] {
        let admin = ClientStanding { who: Who::Admin, ..PLAIN };
        assert_eq!(route_of(line, admin), route, "{line}");
    }
    assert_eq!(words_of("READONLY", PLAIN), NO_CLUSTER);
    assert!(words_of("SHUTDOWN", PLAIN).starts_with("ERR weir: SHUTDOWN is refused: it is for"));
}

#[test]
fn a_stranger_may_log_in_and_nothing_else() {
    let stranger = ClientStanding { who: Who::Stranger, ..PLAIN };
    for line in ["AUTH p", "HELLO 3", "QUIT", "RESET"] {
        assert!(said(line, false, stranger).is_ok(), "{line}");
    }
    for line in ["GET k", "PING", "MULTI", "GET", "CLIENT KILL x", "SHUTDOWN"] {
        assert_eq!(said(line, false, stranger), Err(Refusal::Stranger), "{line}");
    }
    assert_eq!(said("JSON.GET k", false, stranger), Err(Refusal::Unknown));
}

#[test]
fn what_touches_everybody_is_for_administrators() {
    let admin = ClientStanding { who: Who::Admin, ..PLAIN };
    for line in [
        "FLUSHALL",
        "FLUSHDB",
        "KEYS *",
        "LATENCY LATEST",
        "MONITOR",
        "SLOWLOG GET",
        "WEIR SHOW LANES",
        "client kill x",
        "CLIENT LIST",
        "CLIENT PAUSE 1",
        "CLIENT UNBLOCK 1",
        "CLIENT UNPAUSE",
        "SCRIPT KILL",
        "FUNCTION KILL",
    ] {
        assert!(words_of(line, PLAIN).starts_with("NOPERM weir: "), "{line}");
        assert!(said(line, false, admin).is_ok(), "{line}");
    }
    assert_eq!(
        words_of("client list", PLAIN),
        "NOPERM weir: CLIENT LIST is for users with admin = true"
    );
    for line in ["FUNCTION LIST", "CLIENT ID", "DBSIZE", "RANDOMKEY", "SCRIPT LOAD x"] {
        assert!(said(line, false, PLAIN).is_ok(), "{line}");
    }
    let (mut commands, bytes) = (Commands::default(), b"JSON.GET k\r\n");
    commands.cut(bytes, &Limits::default()).unwrap();
    let command = &commands.command(bytes);
    let kept =
        CommandFacts { spec: find(b"GET"), command, is_for_admins: true, is_taken_away: false };
    assert!(matches!(dispatch(&kept, &PLAIN), Err(Refusal::Words(_))));
    assert!(dispatch(&kept, &admin).is_ok());
}

#[test]
fn what_is_not_listed_is_asked_for_where_nothing_is_lost_by_it() {
    let unlisted = |line: &str, standing| said(line, false, standing);
    assert_eq!(unlisted("JSON.GET k", PLAIN), Ok(Dispatch::Unlisted));
    assert_eq!(unlisted("JSON.GET k", WATCHING), Ok(Dispatch::Unlisted));
    assert_eq!(unlisted("JSON.GET k", BEGUN), Ok(Dispatch::UnlistedStep));
    for standing in [TRACKING, IN_MODE] {
        assert_eq!(unlisted("JSON.GET k", standing), Err(Refusal::Unknown));
    }
    let pushed = ClientStanding { subscription: Subscription::Pushed, ..PLAIN };
    assert_eq!(unlisted("JSON.GET k", pushed), Ok(Dispatch::Unlisted));
    assert_eq!(unlisted("config|get k", PLAIN), Err(Refusal::Unknown));
    assert_eq!(unlisted(&"x".repeat(65), PLAIN), Err(Refusal::Unknown));
    // One that a server has otherwise is as one that is not listed, behind what its user may.
    assert_eq!(said("GET k", true, PLAIN), Ok(Dispatch::Unlisted));
    assert_eq!(said("GET k", true, BEGUN), Ok(Dispatch::UnlistedStep));
    assert!(matches!(said("KEYS *", true, PLAIN), Err(Refusal::Words(_))));
}

#[test]
fn what_is_no_command_is_told_in_a_servers_words_and_ends_a_transaction_as_exec() {
    assert_eq!(words_of("GET", PLAIN), "ERR wrong number of arguments for 'get' command");
    let what = "wrong number of arguments for 'exec' command".to_owned();
    assert_eq!(said("EXEC x", false, BEGUN), Err(Refusal::Abort(what)));
    assert!(said("EVAL x 9 k", false, PLAIN).is_ok(), "a single server has its own words");
    assert_eq!(words_of("EVAL x 9 k", SEVERAL), "ERR weir: what its keys are is not clear");
}

#[test]
fn in_the_subscribed_mode_little_can_be_said() {
    for line in ["SUBSCRIBE c", "UNSUBSCRIBE", "QUIT", "RESET"] {
        assert!(said(line, false, IN_MODE).is_ok(), "{line}");
    }
    assert_eq!(route_of("PING x", IN_MODE), CommandRoute::Own(OwnAnswer::PongAsMessage));
    let tracks = ClientStanding { tracks: true, ..IN_MODE };
    assert_eq!(route_of("PING", tracks), CommandRoute::Own(OwnAnswer::PongAsMessage));
    assert!(words_of("GET k", IN_MODE).starts_with("ERR Can't execute 'get': only "));
    assert!(matches!(said("EXEC", false, IN_MODE), Err(Refusal::Abort(_))));
}

#[test]
fn where_keys_are_tracked_what_servers_said_before_comes_before_ping() {
    assert_eq!(route_of("PING", TRACKING), CommandRoute::AskTracked);
    assert_eq!(route_of("ECHO x", TRACKING), CommandRoute::AskTracked);
    assert_eq!(route_of("SELECT 1", TRACKING), CommandRoute::Own(OwnAnswer::Select));
}

#[test]
fn within_multi_commands_are_steps_or_are_refused() {
    use StepEffect::{Reads, Writes};
    for (line, effect) in [
        ("GET k", Reads),
        ("XREAD STREAMS s 0", Reads),
        ("PING", Reads),
        ("ECHO x", Reads),
        ("READONLY", Reads),
        ("MULTI", Reads),
        ("WATCH k", Reads),
        ("UNWATCH", Writes),
        ("SET k v", Writes),
        ("BLPOP k 0", Writes),
        ("MGET a b", Writes),
        ("TIME", Writes),
        ("DBSIZE", Writes),
        ("SCAN 0", Writes),
        ("SCRIPT LOAD x", Writes),
    ] {
        assert_eq!(route_of(line, BEGUN), CommandRoute::Step(effect), "{line}");
    }
    for line in ["WAIT 0 0", "SUBSCRIBE c", "UNSUBSCRIBE", "PUBSUB NUMPAT", "SELECT 1", "HELLO"] {
        assert!(words_of(line, BEGUN).ends_with("is refused within MULTI"), "{line}");
    }
    assert!(words_of("SCRIPT DEBUG YES", BEGUN).starts_with("ERR weir: SCRIPT DEBUG is refused"));
    for own in ["QUIT", "RESET"] {
        assert!(matches!(route_of(own, BEGUN), CommandRoute::Own(_)), "{own}");
    }
    assert_eq!(route_of("EXEC", BEGUN), CommandRoute::Transaction(TransactionCommand::Exec));
    let begun = |of: ClientStanding| ClientStanding { transaction: BEGUN.transaction, ..of };
    for line in ["DBSIZE", "SCAN 0", "SCRIPT LOAD x"] {
        assert!(words_of(line, begun(SEVERAL)).ends_with("is refused within MULTI"), "{line}");
    }
    let nested = said("MULTI", false, begun(SEVERAL));
    assert_eq!(nested, Err(Refusal::WordsAlone("ERR MULTI calls can not be nested")));
    assert_eq!(words_of("READONLY", begun(CLUSTER)), NO_CLUSTER);
    let admin = ClientStanding { who: Who::Admin, ..BEGUN };
    assert!(words_of("SCRIPT KILL", admin).starts_with("ERR weir: SCRIPT KILL is refused"));
}

#[test]
fn of_a_sub_command_that_is_not_served_it_is_told_why() {
    let refused = "is refused: it is not for a connection that others share";
    for (line, words) in [
        ("CLIENT CAPA x", format!("ERR weir: CLIENT CAPA {refused}")),
        ("CLIENT NO-EVICT", format!("ERR weir: CLIENT NO-EVICT {refused}")),
        ("client id x", "ERR wrong number of arguments for 'client|id' command".to_owned()),
        ("PUBSUB NUMPAT x", "ERR wrong number of arguments for 'pubsub|numpat' command".to_owned()),
        ("SCRIPT X", "ERR unknown subcommand 'X'. Try SCRIPT HELP.".to_owned()),
        ("CONFIG SET a b", format!("ERR weir: CONFIG SET {refused}")),
        ("PING a b", "ERR wrong number of arguments for 'ping' command".to_owned()),
    ] {
        assert_eq!(words_of(line, PLAIN), words, "{line}");
    }
}

#[test]
fn without_multi_nothing_is_executed_or_discarded() {
    for standing in [PLAIN, WATCHING] {
        assert_eq!(words_of("EXEC", standing), "ERR EXEC without MULTI");
        assert_eq!(words_of("DISCARD", standing), "ERR DISCARD without MULTI");
    }
}

#[test]
fn what_a_client_holds_is_not_lost_by_what_it_says() {
    use Change::{Database, Protocol, Server, Tracking, Unlisted, User};
    let subscribed = ClientStanding { subscription: Subscription::Pushed, ..PLAIN };
    for (standing, refused) in [
        (PLAIN, &[][..]),
        (WATCHING, &[Database, Protocol, User, Tracking, Server]),
        (BEGUN, &[Database, Protocol, User, Tracking, Server]),
        (TRACKING, &[Database, Protocol, User, Unlisted]),
        (subscribed, &[User]),
        (IN_MODE, &[User, Unlisted]),
    ] {
        for change in [Database, Protocol, User, Tracking, Server, Unlisted] {
            let is_refused = standing.allows(change).is_err();
            assert_eq!(is_refused, refused.contains(&change), "{standing:?} {change:?}");
        }
    }
    let both = ClientStanding { tracks: true, ..WATCHING };
    let first = "ERR weir: a login is refused while keys are watched";
    assert_eq!(both.allows(User), Err(first));
}

#[test]
fn what_waits_for_others_is_where_keys_are_watched() {
    assert!(PLAIN.allows_waiting(1).is_ok() && WATCHING.allows_waiting(3).is_ok());
    assert!(WATCHING.allows_waiting(4).is_err());
}

#[test]
fn only_a_plain_read_by_itself_is_shared() {
    assert!(PLAIN.may_share_read(false) && !PLAIN.may_share_read(true));
    for standing in [TRACKING, WATCHING, BEGUN] {
        assert!(!standing.may_share_read(false), "{standing:?}");
    }
    assert!(WATCHING.may_read_replicas() && !TRACKING.may_read_replicas());
}

#[test]
fn a_large_value_passes_what_every_command_passes() {
    let (mut commands, bytes) = (Commands::default(), b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$99\r\n");
    assert_eq!(commands.cut(bytes, &Limits::default()), Ok(CommandFrame::More));
    let coming = commands.coming(bytes).unwrap();
    let facts = |name: &[u8], is_taken_away| CommandFacts {
        spec: find(name),
        command: &coming.command,
        is_for_admins: false,
        is_taken_away,
    };
    let may = |standing| may_stream(&facts(b"SET", false), 3, &standing);
    assert!(may(PLAIN) && may(SEVERAL) && may(CLUSTER) && may(TRACKING));
    assert!(!may(BEGUN) && !may(WATCHING) && !may(IN_MODE));
    assert!(!may(ClientStanding { who: Who::Stranger, ..PLAIN }));
    assert!(!may_stream(&facts(b"SET", true), 3, &PLAIN), "a server has it otherwise");
    assert!(!may_stream(&facts(b"SET", false), 2, &PLAIN), "it has too few arguments");
    assert!(!may_stream(&facts(b"GETSET", false), 4, &PLAIN), "it has too many arguments");
    assert!(!may_stream(&facts(b"MSET", false), 3, &PLAIN), "it may have several keys");
    assert!(!may_stream(&facts(b"NONE", false), 3, &PLAIN), "it is not listed");
}

/// A command of each way, and some that are none.
const LINES: [&str; 24] = [
    "GET k",
    "SET k v",
    "SET k",
    "APPEND k v",
    "LPUSH k a b",
    "GETSET k v",
    "XADD s * f v",
    "XREAD STREAMS s 0",
    "BLPOP k 0",
    "MGET a b",
    "MSET a 1 b 2",
    "KEYS *",
    "SCAN 0",
    "PING",
    "ECHO x",
    "MULTI",
    "EXEC",
    "WATCH k",
    "CLIENT ID",
    "CLIENT TRACKING ON",
    "SCRIPT LOAD x",
    "JSON.GET k",
    "SHUTDOWN",
    "RESET",
];

proptest! {
    /// And no beginning of a command goes to a server by itself where the whole would not go there
    /// as a write of one key.
    #[test]
    fn a_command_goes_its_way_wherever_its_bytes_are_cut(
        line in select(&LINES[..]),
        standing in select(vec![PLAIN, SEVERAL, CLUSTER, BEGUN, WATCHING, TRACKING, IN_MODE]),
        is_taken_away: bool,
        cuts in vec(any::<Index>(), 0..4),
    ) {
        let words: Vec<&str> = line.split(' ').collect();
        let mut bytes = Vec::new();
        put_command(&mut bytes, words.iter());
        let mut ends: Vec<usize> = cuts.iter().map(|cut| 1 + cut.index(bytes.len() - 1)).collect();
        ends.sort_unstable();
        let whole = said(line, is_taken_away, standing);
        let mut commands = Commands::default();
        for end in ends {
            let begun = &bytes[..end];
            let cut = commands.cut(begun, &Limits::default()).unwrap();
            prop_assert!(matches!(cut, CommandFrame::More), "{end}: {cut:?}");
            let coming = commands.coming(begun).filter(|of| of.total.is_some());
            let Some(coming) = coming else { continue };
            let command = &coming.command;
            let spec = command.get(0).and_then(find);
            let facts = CommandFacts { spec, command, is_for_admins: false, is_taken_away };
            if may_stream(&facts, coming.args, &standing) {
                let is_write =
                    matches!(whole, Ok(Dispatch::Listed { route: CommandRoute::Write, .. }));
                prop_assert!(is_write, "{line}: {whole:?}");
            }
        }
        let cut = commands.cut(&bytes, &Limits::default()).unwrap();
        prop_assert!(matches!(cut, CommandFrame::Command(len) if len == bytes.len()));
        let command = &commands.command(&bytes);
        let spec = find(command.name());
        let facts = CommandFacts { spec, command, is_for_admins: false, is_taken_away };
        prop_assert_eq!(dispatch(&facts, &standing), whole);
    }
}
