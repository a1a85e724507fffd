//! Each client has a twin that is directly at a second server: step by step they hear the same,
//! whatever they say.
//!
//! `pair` is a client and its twin, `words` is what they say, `tracking` what of keys that they
//! keep, `excuse` where they may differ.
//! `WEIR_TEST_STEPS` and `WEIR_TEST_SEED` are for longer runs by hand.

mod excuse;
mod pair;
mod tracking;
mod words;

use std::thread;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use rig::chance::{self, Length};
use rig::redis::{Redis, RedisClient};
use rig::weir::Weir;

use super::scene::{ADMIN, weir};
use pair::{Difference, Pair, TwinTargets};
use words::{Vocabulary, Words, is_alone};

/// A user that is not an administrator.
const APP: &str = "[[redis.user]]\nname = \"app\"\npassword = \"q\"\n";
/// What that is at the servers, where they know it.
const BACKEND: &str = "backend-user = \"app\"\nbackend-password = \"q\"\n";
/// What it may touch, where it may not touch all.
const SOME: &str = "~a* ~b* ~new* ~queue:* ~cut:* %R~c* %W~d* &news* &shard* &weir:wait";
/// What `default` may touch, where servers let it in.
const OTHERS: &str = "~b* ~d* ~e* ~x* ~queue:* %R~a* &other* &none* &n?ws* &weir:wait";
/// Keys that `app` may touch from then on, where that changes.
const CHANGES: [&str; 3] = ["~c* ~d* ~queue:* ~cut:* %R~a*", "~a* %R~b* %W~x*", "~*"];
/// What users may say that are no administrators.
const SAYS: &str = "+@all -@dangerous +info +sort +sort_ro +restore";
/// How clients log in: by twos those of either protocol.
const LOGINS: [&[&str]; 4] =
    [&["AUTH p"], &["HELLO 3 AUTH default p"], &["AUTH app q"], &["HELLO 3 AUTH app q"]];
/// Reads of five keys that all racers have and nobody changes: those that wait together are asked
/// once, of users that may touch them and of users that may not.
const READS_OF_ALL: [&str; 6] = [
    "GET a-of-all",
    "STRLEN b-of-all",
    "LRANGE c-of-all 0 -1",
    "HGETALL d-of-all",
    "ZRANGE new-of-all 0 -1 WITHSCORES",
    "MGET a-of-all b-of-all none-of-all",
];
/// Steps of all that take turns, and of each that races.
const STEPS: u64 = 8_000;
const STEPS_OF_RACERS: u64 = 2_000;
/// More of these are written down than anybody reads.
const DIFFERENCES_MAX: usize = 20;
/// What a client said last that is shown where it heard something else.
const RECENT_MAX: usize = 12;

/// Who knows the users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Users {
    /// Weir alone: at the servers all are one.
    OfWeir,
    /// Weir, and one of them is a user of its own at the servers.
    Mapped,
    /// The servers: Weir passes on what clients log in with.
    OfServers,
}

/// Weir before a server, and one beside it with the same users.
struct TwinServers {
    weir: Weir,
    behind: Redis,
    beside: Redis,
    vocabulary: Vocabulary,
    users: Users,
    /// Who may change users, at either server.
    roots: [RedisClient; 2],
}

impl TwinServers {
    fn start(users: Users) -> Self {
        let [behind, beside] = [Redis::start(), Redis::start()];
        let vocabulary = Vocabulary::of(&behind);
        assert!(vocabulary.len() > 250, "{}", vocabulary.len());
        let (lines, tables, may) = match users {
            Users::OfWeir => ("share-reads = true", format!("{ADMIN}{APP}"), "~* &*"),
            Users::Mapped => ("share-reads = true", format!("{ADMIN}{APP}{BACKEND}"), SOME),
            Users::OfServers => ("auth = \"pass\"\nshare-reads = true", String::new(), SOME),
        };
        let weir = weir(&[&behind], lines, &tables);
        let default = match users {
            Users::OfServers => format!("default reset on >p {SAYS} {OTHERS}"),
            Users::OfWeir | Users::Mapped => "default resetpass >p".to_owned(),
        };
        let roots = [&behind, &beside].map(|server| {
            set_user(&mut server.client(), "root on nopass ~* &* +@all");
            let mut root = root(server);
            set_user(&mut root, &format!("app on >q {SAYS} {may}"));
            if users == Users::OfServers || server.address == beside.address {
                set_user(&mut root, &default);
            }
            root
        });
        Self { weir, behind, beside, vocabulary, users, roots }
    }

    /// Has `app` touch other keys from now on, at both servers.
    fn change(&mut self, chance: &mut StdRng) {
        let keys = CHANGES[chance.random_range(0..CHANGES.len())];
        self.roots.iter_mut().for_each(|root| set_user(root, &format!("app resetkeys {keys}")));
    }

    fn place(&self, number: usize) -> TwinTargets {
        let addresses = [self.weir.redis, self.beside.address];
        let login = LOGINS[number % LOGINS.len()];
        TwinTargets { addresses, login, servers_know_users: self.users != Users::OfWeir }
    }
}

/// Who may all at a server.
fn root(server: &Redis) -> RedisClient {
    let mut root = server.client();
    assert_eq!(root.line("AUTH root any"), "+OK");
    root
}

fn set_user(root: &mut RedisClient, user: &str) {
    assert_eq!(root.line(&format!("ACL SETUSER {user}")), "+OK");
}

/// What a client says in one piece.
fn piece(pair: &Pair, vocabulary: &Vocabulary, chance: &mut StdRng) -> Vec<Words> {
    let first = vocabulary.line(chance);
    let more = if is_alone(&first) { 0 } else { chance.random_range(0..3) };
    let mut lines = vec![first];
    for _ in 0..more {
        let line = vocabulary.line(chance);
        if is_alone(&line) {
            break;
        }
        lines.push(line);
    }
    let publishes = |line: &Words| line.iter().any(|word| word.ends_with("PUBLISH"));
    if pair.hears_itself() {
        lines.retain(|line| !publishes(line));
    }
    // What else it was in would not be known of the next one.
    let is_open = !lines.is_empty()
        && (pair.is_within() || pair.watches || lines.iter().any(|line| line[0] == "MULTI"));
    if is_open && !is_alone(&lines[0]) && chance.random_bool(0.3) {
        lines.push(vec!["EXEC".to_owned()]);
    }
    lines
}

/// The same as of a client that does not want to hear the answers: all of them, or each by itself.
fn unheard(lines: Vec<Words>, chance: &mut StdRng) -> Vec<Words> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Words>();
    let has_no_state = |line: &Words| !is_alone(line) && line[0] != "MULTI";
    let lines = lines.into_iter().filter(has_no_state);
    match chance.random_range(0..3) {
        0 => lines.flat_map(|line| [words("CLIENT REPLY SKIP"), line]).collect(),
        1 => [words("CLIENT REPLY OFF")].into_iter().chain(lines).collect(),
        _ => {
            let before = ["CLIENT REPLY OFF", "MULTI"].map(words);
            before.into_iter().chain(lines).chain([words("EXEC")]).collect()
        }
    }
}

fn told(place: &str, differences: &[Difference]) -> Vec<String> {
    let tell = |Difference { said, through, direct }: &Difference| {
        format!("{place}: {said}:\n  Weir   {through:?}\n  direct {direct:?}")
    };
    let told: Vec<String> = differences.iter().map(tell).collect();
    // At once, for whoever ends a run that takes too long.
    told.iter().for_each(|line| println!("{line}"));
    told
}

/// Says commands, now and then without wanting to hear the answers.
fn say(pair: &mut Pair, lines: Vec<Words>, chance: &mut StdRng) -> Vec<Difference> {
    match pair.may_be_unheard() && chance.random_bool(0.1) {
        true => {
            let end = if chance.random_bool(0.2) { "RESET" } else { "CLIENT REPLY ON" };
            let end = end.split(' ').map(str::to_owned).collect();
            pair.ask_unheard(&unheard(lines, chance), end)
        }
        false => pair.ask(&lines),
    }
}

/// One waits for what another one brings.
fn hand_over(pairs: &mut [Pair], from: usize, to: usize, step: u64) -> Vec<Difference> {
    if from == to || pairs[from].is_within() || pairs[to].is_within() {
        return Vec::new();
    }
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Words>();
    let push = [words(&format!("RPUSH queue:{step} brought"))];
    let pop = [words(&format!("BLPOP none queue:{step} 0.2"))];
    let like = pairs[from].say(&pop);
    let mut found = pairs[to].ask(&push);
    found.extend(pairs[from].hear(&pop, like));
    // Where it may not ask, what was brought is there still.
    found.extend(pairs[to].ask(&[words(&format!("DEL queue:{step}"))]));
    found
}

#[test]
fn a_client_hears_what_it_would_hear_without() {
    clients_take_turns(TwinServers::start(Users::OfWeir));
}

#[test]
fn users_that_are_others_at_the_servers_hear_what_they_would_hear_without() {
    clients_take_turns(TwinServers::start(Users::Mapped));
}

#[test]
fn users_of_the_servers_hear_what_they_would_hear_without() {
    clients_take_turns(TwinServers::start(Users::OfServers));
}

fn clients_take_turns(mut stand: TwinServers) {
    let seed = chance::seed();
    let mut chance = StdRng::seed_from_u64(seed);
    let mut pairs: Vec<Pair> = (0..6).map(|at| Pair::connect(stand.place(at))).collect();
    let mut wrong = Vec::new();
    let (length, mut steps) = (Length::of(STEPS), 0);
    while length.goes_on(steps) {
        let step = steps;
        steps += 1;
        let at = chance.random_range(0..pairs.len());
        let differences = match chance.random_range(0..1000) {
            // It leaves, amid whatever it was at.
            0..2 => {
                pairs[at].connect_again();
                Vec::new()
            }
            2..5 => {
                // Nobody else knows these keys: how much of it is run is not the same.
                let line = |n: u64| vec!["APPEND".to_owned(), format!("cut:{step}"), n.to_string()];
                let lines: Vec<Words> = (0..3).map(line).collect();
                pairs[at].leave_amid(&lines, chance.random_range(0..200));
                Vec::new()
            }
            5..15 => {
                let to = chance.random_range(0..pairs.len());
                hand_over(&mut pairs, at, to, step)
            }
            15..20 if stand.users == Users::OfServers => {
                stand.change(&mut chance);
                Vec::new()
            }
            _ => {
                let lines = piece(&pairs[at], &stand.vocabulary, &mut chance);
                say(&mut pairs[at], lines, &mut chance)
            }
        };
        let place = format!("seed {seed}, step {step}");
        wrong.extend(told(&place, &differences));
        let at = chance.random_range(0..pairs.len());
        wrong.extend(told(&place, &pairs[at].settle()));
        assert!(wrong.len() < DIFFERENCES_MAX, "{}", wrong.join("\n"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let told: usize = pairs.iter().map(|pair| pair.told).sum();
    assert!(steps < STEPS || told > 0, "nobody was told of a key");
    println!("{steps} steps, {told} keys out of date");
}

#[test]
fn clients_that_race_hear_what_they_would_without() {
    clients_race(&TwinServers::start(Users::OfWeir));
}

#[test]
fn users_that_are_others_at_the_servers_and_race_hear_what_they_would_without() {
    clients_race(&TwinServers::start(Users::Mapped));
}

#[test]
fn users_of_the_servers_that_race_hear_what_they_would_without() {
    clients_race(&TwinServers::start(Users::OfServers));
}

fn clients_race(stand: &TwinServers) {
    for server in [&stand.behind, &stand.beside] {
        let mut root = root(server);
        for line in [
            "MSET a-of-all one b-of-all two",
            "RPUSH c-of-all 1 2 3",
            "HSET d-of-all f v g w",
            "ZADD new-of-all 1 a 2 b",
        ] {
            assert!(!root.line(line).starts_with('-'), "{line}");
        }
    }
    let seed = chance::seed();
    let length = Length::of(STEPS_OF_RACERS);
    let race = |number: usize| {
        let mut chance = StdRng::seed_from_u64(seed.wrapping_mul(1000) + number as u64);
        let mut pair = Pair::connect(stand.place(number));
        let mut root = root(&stand.beside);
        let mut wrong = Vec::new();
        let (mut step, mut recent) = (0, Vec::new());
        while length.goes_on(step) {
            step += 1;
            if chance.random_bool(0.003) {
                pair.connect_again();
            }
            let lines = piece(&pair, &stand.vocabulary, &mut chance);
            let own = |line| words::of_its_own(line, number, &mut root);
            let lines: Vec<Words> = lines.into_iter().filter_map(own).collect();
            let (place, before) =
                (format!("seed {seed}, client {number}, step {step}"), wrong.len());
            recent.truncate(RECENT_MAX);
            recent.insert(0, format!("step {step}: {lines:?}"));
            if !lines.is_empty() {
                wrong.extend(told(&place, &say(&mut pair, lines, &mut chance)));
            }
            if chance.random_bool(0.5) {
                let line = READS_OF_ALL[chance.random_range(0..READS_OF_ALL.len())];
                let words = line.split(' ').map(str::to_owned).collect();
                wrong.extend(told(&place, &say(&mut pair, vec![words], &mut chance)));
            }
            if chance.random_bool(0.3) {
                wrong.extend(told(&place, &pair.settle()));
            }
            if before == 0 && !wrong.is_empty() {
                println!("client {number} had said, the last first:\n{}", recent.join("\n"));
            }
            if wrong.len() >= DIFFERENCES_MAX {
                break;
            }
        }
        wrong
    };
    let wrong: Vec<String> = thread::scope(|scope| {
        let race = &race;
        let racing: Vec<_> = (0..10).map(|number| scope.spawn(move || race(number))).collect();
        racing.into_iter().flat_map(|one| one.join().expect("it ends")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
