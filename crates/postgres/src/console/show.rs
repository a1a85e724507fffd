//! `SHOW`: PgBouncer's columns by name and in its order, and Weir's own after them.

mod overview;
mod sockets;
mod statistics;

use watch::table::Table;

use super::command::Show;
use super::snapshot::Snapshot;
use super::table;
use crate::settings::Settings;
pub(in crate::console) use sockets::micros;

impl Show {
    /// Appends the whole answer. `settings` are those in force.
    pub fn encode(self, snapshot: &Snapshot, settings: &Settings, out: &mut Vec<u8>) {
        table::encode(&self.table(snapshot, settings), out);
    }

    /// The rows that this `SHOW` gives.
    pub fn table(self, snapshot: &Snapshot, settings: &Settings) -> Table {
        match self {
            Self::ActiveSockets => sockets::all(snapshot, true),
            Self::Sockets => sockets::all(snapshot, false),
            Self::Clients => sockets::clients(snapshot),
            Self::Servers => sockets::servers(snapshot),
            Self::Lanes => sockets::lanes(snapshot),
            Self::Stats => statistics::both(snapshot),
            Self::StatsTotals => statistics::totals(snapshot),
            Self::StatsAverages => statistics::averages(snapshot),
            Self::Totals => statistics::sums(snapshot),
            Self::Plans => statistics::plans(snapshot),
            Self::Backends => overview::backends(snapshot),
            Self::Config => overview::config(settings),
            Self::Databases => overview::databases(snapshot),
            Self::Lists => overview::lists(snapshot),
            Self::Mem => overview::memory(snapshot),
            Self::Pools => overview::pools(snapshot),
            Self::State => overview::state(snapshot),
            Self::Users => overview::users(snapshot),
            Self::Version => overview::version(),
            Self::DnsHosts | Self::DnsZones | Self::Peers | Self::PeerPools => overview::none(self),
        }
    }
}
