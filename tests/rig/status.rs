//! The admin port's `/status` and the identity it must keep.

use serde_json::Value;

/// What became of every point a backend has to be sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    /// Points taken since it was added.
    pub accepted: u64,
    /// Points it has stored.
    pub delivered: u64,
    /// Points it refused for good.
    pub dead_lettered: u64,
    /// Points given up for want of room, or lost by damage.
    pub dropped: u64,
    /// Points that other sets of its cluster have; none in a Weir from before there were sets,
    /// which `--beside` may be given.
    pub elsewhere: u64,
    /// Points it is still to be sent.
    pub waiting: u64,
    /// Statements it is still to run.
    pub waiting_statements: u64,
    pub state: String,
    /// What it said last, where that was an error.
    pub last_error: String,
}

impl Account {
    fn read(backend: &Value) -> Self {
        let cursor = &backend["cursor"];
        let number = |key: &str| {
            cursor[key].as_u64().unwrap_or_else(|| panic!("no number {key:?} in {backend}"))
        };
        let text = |key: &str| backend[key].as_str().unwrap_or_default().to_owned();
        Self {
            name: text("name"),
            accepted: number("accepted"),
            delivered: number("delivered"),
            dead_lettered: number("dead_lettered"),
            dropped: number("dropped") + number("dropped_oldest") + number("dropped_damaged"),
            elsewhere: cursor["elsewhere"].as_u64().unwrap_or_default(),
            waiting: cursor["waiting"]["items"].as_u64().unwrap_or(u64::MAX),
            waiting_statements: cursor["waiting"]["controls"].as_u64().unwrap_or(u64::MAX),
            state: text("state"),
            last_error: text("last_error"),
        }
    }

    /// Whether every point is accounted for.
    pub fn adds_up(&self) -> bool {
        let fates = self.delivered + self.dead_lettered + self.dropped + self.elsewhere;
        self.accepted == fates + self.waiting
    }
}

/// The accounts of all backends in a status document.
///
/// # Panics
/// When the document is not what `weir status` needs.
pub fn accounts(status: &Value) -> Vec<Account> {
    let backends = status["influx"]["backends"].as_array();
    let backends = backends.unwrap_or_else(|| panic!("no backends in {status}"));
    backends.iter().map(Account::read).collect()
}
