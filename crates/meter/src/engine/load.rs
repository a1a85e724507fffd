//! A load of a run: a plan, and a workload of any type.

use std::marker::PhantomData;
use std::sync::Arc;

use super::Plan;
use super::thread::{self, Task, ThreadMessage};
use crate::discovery::{Discovery, DiscoveryError, ServerList};
use crate::injector::BusyTime;
use crate::recorder::OPERATIONS_MAX;
use crate::workload::Workload;

/// What a workload's only operation is called, which says nothing.
pub const ONLY: &str = "request";

/// What a load is, its workload's type aside.
trait Work: Sync {
    fn operations(&self) -> Vec<String>;

    fn requests_max(&self) -> Option<u64>;

    fn discovery(&self) -> Option<Arc<dyn Discovery>>;

    fn send(&self, task: Task<'_>);
}

struct Made<F, W>(F, PhantomData<fn() -> W>);

impl<F: Fn(usize) -> W + Sync, W: Workload + 'static> Work for Made<F, W> {
    fn operations(&self) -> Vec<String> {
        self.0(0).operations()
    }

    fn requests_max(&self) -> Option<u64> {
        self.0(0).requests_max()
    }

    fn discovery(&self) -> Option<Arc<dyn Discovery>> {
        self.0(0).channels()?.discovery
    }

    fn send(&self, task: Task<'_>) {
        let (say, (number, _)) = (task.say.clone(), task.of_load);
        if let Err(error) = thread::run(task, BusyTime::default(), || self.0(number)) {
            let _ = say.send(ThreadMessage::Failed(error));
        }
    }
}

/// A load: where it goes, how fast, and what is sent.
pub struct Load<'a> {
    /// What it is called beside others.
    pub name: String,
    /// Where it goes, and how fast.
    pub plan: Plan,
    work: Box<dyn Work + 'a>,
}

impl<'a> Load<'a> {
    /// Of a workload that `make` makes for each thread.
    pub fn new<W: Workload + 'static>(
        name: impl Into<String>,
        plan: Plan,
        make: impl Fn(usize) -> W + Sync + 'a,
    ) -> Self {
        Self { name: name.into(), plan, work: Box::new(Made(make, PhantomData)) }
    }

    /// What its operations are called.
    pub fn operations(&self) -> Vec<String> {
        self.work.operations()
    }

    /// How many requests it has something to send for; most have no end.
    pub fn requests_max(&self) -> Option<u64> {
        self.work.requests_max()
    }

    /// Finds the servers, where a registry says which there are.
    pub(super) fn discover(&self) -> Result<Option<ServerList>, DiscoveryError> {
        self.work.discovery().map(|discovery| discovery.begin()).transpose()
    }

    pub(super) fn send(&self, task: Task<'_>) {
        self.work.send(task);
    }
}

impl std::fmt::Debug for Load<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What the operations of a run's results are called. Where there are several loads, each has its
/// name in front; all over a hundred are one.
pub fn names(loads: &[Load<'_>]) -> Vec<String> {
    let of = |load: &Load<'_>| -> Vec<String> {
        let own = load.operations();
        match (loads.len(), &own[..]) {
            (1, _) => own,
            (_, [only]) if only == ONLY => vec![load.name.clone()],
            _ => own.iter().map(|own| format!("{} {own}", load.name)).collect(),
        }
    };
    let mut all: Vec<_> = loads.iter().flat_map(of).collect();
    if all.len() > OPERATIONS_MAX {
        all.truncate(OPERATIONS_MAX);
        all.push("other".to_owned());
    }
    all
}
