//! Where statements are asked in a cluster: in the one set that can have their points, or in each
//! of several, whose answers become one.

use std::borrow::Cow;
use std::sync::Arc;

use wire::influxql;
use wire::influxql::ast::{Select, Show, Statement};

use super::fetch::{FetchPlan, Streaming};
use super::joint::JointQuery;
use super::metrics::QueryWay;
use crate::backends::{Backend, Backends};
use crate::placement::{DATABASE, QueryScope, Reach, SetNumber, Table};

/// Who answers the statements that read of a request.
#[derive(Clone)]
pub enum Answering {
    /// The store within Weir, which has everything.
    Store,
    /// Any backend: each has everything.
    Copies,
    /// The sets of a cluster, by this table, at this moment in nanoseconds since 1970.
    Sets(Arc<Table>, i64),
}

impl Answering {
    /// The text as a member of a cluster gets it: `now()` is the moment that its sets were chosen
    /// by.
    pub fn frozen<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self {
            Self::Sets(_, now_ns) => influxql::freeze_now(text, *now_ns).into(),
            Self::Store | Self::Copies => text.into(),
        }
    }

    /// Whom to ask, best first.
    pub fn candidates(&self, backends: &Backends, route: &Route) -> Candidates {
        let (backends, set) = match (self, route) {
            (Self::Sets(table, _), Route::Set(set)) => {
                let set = table.sets().get(*set);
                let members = set.map_or_else(Vec::new, |set| backends.members(set));
                (members, set.map(|set| set.name.clone()))
            }
            (Self::Sets(table, _), _) => {
                let mut all = backends.candidates();
                all.retain(|backend| table.set_of(backend.name()).is_some());
                (all, None)
            }
            _ => (backends.candidates(), None),
        };
        Candidates { backends, set }
    }
}

/// The backends that may answer a statement, best first.
#[derive(Clone)]
pub struct Candidates {
    pub backends: Vec<Arc<Backend>>,
    /// The set of a cluster that they are the members of, where nobody else can answer.
    pub set: Option<String>,
}

impl Candidates {
    /// That none of them has answered, for these reasons.
    pub fn unanswered(&self, reasons: &[String]) -> String {
        match (&self.set, reasons.last()) {
            (Some(set), _) => {
                format!("no member of set {set:?} answered the query: {}", reasons.join("; "))
            }
            (None, Some(last)) => format!("no backend answered the query: {last}"),
            (None, None) => "no backend answered the query: no backend is reachable".to_owned(),
        }
    }
}

/// Where a statement is asked in a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Route {
    /// Of any member of any set.
    Any,
    /// Of any member, whose answer names the databases, that of the table among them.
    Databases,
    /// Of the members of one set.
    Set(SetNumber),
    /// Of a member of each of these sets, whose answers become one.
    Each(Vec<SetNumber>, Box<JointQuery>),
    /// It runs here, on the points of a member of each of these sets or on the results of its
    /// aggregates, since it can't be put together of their answers for this reason.
    Fetch(Vec<SetNumber>, Box<FetchPlan>, &'static str),
    /// Of nobody: it is explained, in these words, how the cluster would answer it.
    Explained(String),
    /// Of nobody, for this reason.
    Refused(String),
}

impl Route {
    /// As what it counts; `None` where any member knows, or nobody is asked.
    pub fn way(&self) -> Option<QueryWay> {
        match self {
            Self::Any | Self::Databases | Self::Explained(_) | Self::Refused(_) => None,
            Self::Set(_) => Some(QueryWay::Passed),
            Self::Each(_, query) => Some(query.way()),
            Self::Fetch(_, plan, _) if plan.partials().is_some() => Some(QueryWay::Merged),
            Self::Fetch(..) => Some(QueryWay::Fetched),
        }
    }
}

/// Where a statement is to be asked.
pub fn route(table: &Table, statement: &Statement, scope: QueryScope<'_>) -> Route {
    match statement {
        Statement::Select(select) if select.target.is_some() && table.sets().len() > 1 => {
            return refused("SELECT ... INTO is not supported in a cluster of several sets");
        }
        Statement::Unserved("CREATE CONTINUOUS QUERY") if table.sets().len() > 1 => {
            return refused("continuous queries are not supported in a cluster of several sets");
        }
        _ => {}
    }
    match (table.reach(statement, scope), statement) {
        (Reach::Schema, Statement::Show(show)) if table.sets().len() > 1 => {
            let all = (0..table.sets().len()).collect();
            let query = JointQuery::of_schema(show);
            query.map_or(Route::Any, |query| Route::Each(all, Box::new(query)))
        }
        (Reach::Unknown, _) => Route::Refused(unknown(table)),
        (_, Statement::Show(Show::Databases)) => Route::Databases,
        (Reach::Sets(sets), _) => match (sets.first(), sets.len(), statement) {
            (Some(set), 1, _) => Route::Set(*set),
            (_, _, Statement::Select(select)) => {
                let joint = JointQuery::of_select(table, select, scope);
                let sets = sets.into_iter().collect();
                match joint.map_err(|why| (why, FetchPlan::of(select, scope))) {
                    Ok(query) => match passing(&query, select, scope) {
                        Some(plan) => Route::Fetch(sets, Box::new(plan), "its rows are points"),
                        None => Route::Each(sets, Box::new(query)),
                    },
                    Err((why, Ok(plan))) => {
                        let (plan, why) = computed(table, select, scope, (plan, why));
                        Route::Fetch(sets, Box::new(plan), why)
                    }
                    Err((_, Err(words))) => Route::Refused(words),
                }
            }
            (_, _, Statement::Explain { select, .. }) => {
                let select = Statement::Select(select.clone());
                Route::Explained(explain(table, &select, scope))
            }
            _ => Route::Any,
        },
        _ => Route::Any,
    }
}

/// Where a statement is asked and what becomes of the answers, in words.
pub fn explain(table: &Table, statement: &Statement, scope: QueryScope<'_>) -> String {
    let name = |set: &SetNumber| table.sets().get(*set).map_or("", |set| set.name.as_str());
    match route(table, statement, scope) {
        Route::Any | Route::Databases => "asked of any member".to_owned(),
        Route::Set(set) => format!("passed to a member of set {}", name(&set)),
        Route::Each(sets, query) => {
            let names: Vec<&str> = sets.iter().map(name).collect();
            format!("{} from a member of each of {}", query.becomes(), names.join(", "))
        }
        Route::Fetch(sets, plan, why) => {
            let names: Vec<&str> = sets.iter().map(name).collect();
            let names = names.join(", ");
            if plan.partials().is_some() {
                return format!("merged from partial results from a member of each of {names}");
            }
            if plan.streaming() == Streaming::AtOnce {
                return format!("passed through from a member of each of {names}, as it comes");
            }
            format!("run here on the points of a member of each of {names}, since {why}")
        }
        Route::Explained(words) => words,
        Route::Refused(why) => format!("refused: {why}"),
    }
}

/// How a query runs that can't be put together of the answers of sets for this reason: over
/// partial results of its aggregates where these are enough.
fn computed(
    table: &Table,
    select: &Select,
    scope: QueryScope<'_>,
    (plan, why): (FetchPlan, &'static str),
) -> (FetchPlan, &'static str) {
    match plan.clone().merged(select, scope) {
        // Members have other windows there than the points of all sets together.
        Some(_) if table.has_clock_change(select, scope) => {
            (plan, "the clocks of its time zone are changed within its windows")
        }
        Some(merged) => (merged, why),
        None => (plan, why),
    }
}

/// How a query whose groups lie in one set each is answered by its points as they come; `None`
/// where its rows are made of several points.
fn passing(query: &JointQuery, select: &Select, scope: QueryScope<'_>) -> Option<FetchPlan> {
    let plan = FetchPlan::of(select, scope).ok();
    plan.filter(|_| query.way() == QueryWay::Joined)?.at_once()
}

/// What a client hears whose query could have points that this gateway does not know of.
fn unknown(table: &Table) -> String {
    let words = match table.is_empty() {
        true => "the cluster's table is not in force here: run `weir placement apply`",
        false => "the cluster has a period that this gateway's file lacks: reload it",
    };
    words.to_owned()
}

/// Where a statement is asked that names these databases, or that of its request.
pub fn hidden(names: &[String], request: &str) -> Option<Route> {
    let is_hidden =
        names.iter().any(|name| name == DATABASE) || (names.is_empty() && request == DATABASE);
    is_hidden.then(|| Route::Refused(format!("database not found: {DATABASE}")))
}

fn refused(words: &str) -> Route {
    Route::Refused(words.to_owned())
}

/// Where all statements of a request can be asked at once; `None` where each has its own way.
pub fn common(routes: &[Route]) -> Option<Route> {
    let mut found = Route::Any;
    for route in routes {
        match (route, &found) {
            (Route::Any, _) => {}
            (Route::Set(_), Route::Any) => found = route.clone(),
            (Route::Set(set), Route::Set(other)) if set == other => {}
            _ => return None,
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_one_set_are_asked_at_once() {
        let set = Route::Set;
        let each = || refused("no");
        for (routes, wanted) in [
            (vec![], Some(Route::Any)),
            (vec![Route::Any, set(1)], Some(set(1))),
            (vec![set(1), Route::Any, set(1)], Some(set(1))),
            (vec![set(1), set(2)], None),
            (vec![Route::Any, each()], None),
        ] {
            assert_eq!(common(&routes), wanted, "{routes:?}");
        }
    }
}
