//! What a client does next, and a look at all that can be seen of its session.

use rand::Rng;
use rand::rngs::StdRng;

use super::found::ServerCatalogue;
use super::invent::{Footing, Inventor};
use super::step::{Statement, Step};

/// All that can be seen of a session.
const LOOK: &str = "SELECT session_user, current_user, \
    coalesce(current_setting('app.tenant', true), '') AS tenant, \
    coalesce(current_setting('app.mark', true), '') AS mark, \
    (SELECT string_agg(relname, ',' ORDER BY relname) FROM pg_catalog.pg_class \
     WHERE relnamespace = pg_catalog.pg_my_temp_schema() AND relkind = 'r') AS temporary, \
    (SELECT string_agg(objid::text, ',' ORDER BY objid) FROM pg_catalog.pg_locks \
     WHERE locktype = 'advisory' AND pid = pg_catalog.pg_backend_pid()) AS locks, \
    (SELECT string_agg(name, ',' ORDER BY name) FROM pg_catalog.pg_cursors \
     WHERE is_holdable) AS cursors, \
    (SELECT string_agg(c, ',' ORDER BY c) FROM pg_catalog.pg_listening_channels() c) AS channels, \
    (SELECT string_agg(name || '=' || setting, E'\\n' ORDER BY name) FROM pg_catalog.pg_settings \
     WHERE context = 'user' AND name !~ '^tcp_|plpgsql|temp_buffers|stats_fetch') AS settings";

/// Some statements at once. What is left where Weir does not know is gone with the transaction, so
/// nothing follows it in the same step.
pub fn step(found: &ServerCatalogue, chance: &mut StdRng, footing: Footing, stained: bool) -> Step {
    let count = [1, 1, 1, 2, 2, 3, 5][chance.random_range(0..7)];
    let mut statements = Vec::new();
    let mut stains = stained;
    while statements.is_empty() || !stains && statements.len() < count {
        let statement = Inventor { found, chance, footing }.statement();
        stains |= statement.marks.stains;
        statements.push(statement);
    }
    let mut step = Step::default();
    step.by_chance(&statements, chance);
    step
}

/// What has to be the same for both.
pub fn look(chance: &mut StdRng) -> Step {
    let mut step = Step::default();
    let look = Statement::new(LOOK);
    match chance.random_bool(0.5) {
        true => step.query(&look),
        false => step.unnamed(&[look], true),
    }
    step.what = vec!["a look".to_owned()];
    step
}

/// Statements that change settings, as Queries.
pub fn settling(statements: &[&str]) -> Step {
    let mut step = Step::default();
    for sql in statements {
        step.query(&Statement::new(*sql).with(|marks| marks.sways = true));
    }
    step
}
