//! Where points lie in a cluster: each in exactly one set of backends, which are copies of each
//! other.
//!
//! The [`Table`] is a pure function of what the configuration says, and of a point's database,
//! series and time. Whoever delivers asks it for a member's [`OwnLines`], whoever admits which
//! points could not be found again, whoever asks for the [`Reach`] of a query. It may only grow:
//! what is in force is kept beside the journal, and what follows it is checked against that.

mod file;
mod own;
mod reach;
mod read;
mod split;
mod table;
mod taken;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;

pub use self::file::TableError;
pub use self::own::{Membership, OwnLine};
pub use self::reach::{QueryScope, Reach};
pub use self::read::{Around, WrittenTable};
pub use self::table::{Set, SetNumber, Table};
pub use self::taken::NotTaken;
use crate::settings::SettingsError;

/// The table in force, where there is one.
#[derive(Debug)]
pub struct Placement {
    table: ArcSwapOption<Table>,
    /// The directory that the table in force is kept in.
    dir: PathBuf,
}

/// A table that is ready to be in force.
#[derive(Debug)]
pub struct PreparedTable {
    written: WrittenTable,
    table: Table,
}

/// A table that may follow the one that is kept.
#[derive(Debug)]
pub struct CheckedTable {
    table: Option<PreparedTable>,
    is_kept: bool,
}

/// A cluster's table can't be in force.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// It can't work, or can't follow the one before it.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The one before it can't be read, or is to be without a successor.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl PreparedTable {
    /// A table and how it is written.
    pub fn new(written: WrittenTable, table: Table) -> Self {
        Self { written, table }
    }
}

impl Placement {
    /// No table yet; one that is kept is in `dir`.
    pub fn new(dir: &Path) -> Self {
        Self { table: ArcSwapOption::empty(), dir: dir.to_owned() }
    }

    /// The table in force; `None` where points are not shared out.
    pub fn table(&self) -> Option<Arc<Table>> {
        self.table.load_full()
    }

    /// Looks whether a table may follow the one that is kept.
    ///
    /// # Errors
    /// When it may not, or what is kept can't be read.
    pub fn check(
        &self,
        wanted: Option<PreparedTable>,
        around: &Around,
    ) -> Result<CheckedTable, PlacementError> {
        let kept = file::read(&self.dir)?;
        match (&wanted, &kept) {
            (None, None) => {}
            (None, Some(kept)) => {
                return Err(TableError::Gone { cluster: kept.cluster.clone() }.into());
            }
            (Some(of), None) => of.written.may_be_first(around)?,
            (Some(of), Some(kept)) => of.written.may_follow(kept, around)?,
        }
        let is_kept = wanted.as_ref().map(|of| &of.written) == kept.as_ref();
        Ok(CheckedTable { table: wanted, is_kept })
    }

    /// Keeps a table and puts it in force. Blocks on the disk where it is not the one that is kept.
    ///
    /// # Errors
    /// When the disk does not take it; nothing has changed then.
    pub fn put_in_force(&self, checked: CheckedTable) -> Result<(), TableError> {
        let CheckedTable { table: Some(PreparedTable { written, table }), is_kept } = checked
        else {
            return Ok(());
        };
        if !is_kept {
            file::write(&self.dir, &written)?;
        }
        self.table.store(Some(Arc::new(table)));
        Ok(())
    }
}
