//! Commands that end with a large value go to their server as they come.

use flow::service::Request;
use wire::resp::Commands;

use super::{Asking, Session};
use crate::commands::{self, Do, Keys};
use crate::front::Home;

/// From so many bytes on a command that ends with a large value is not kept until it is whole.
const LARGE: u64 = 256 << 10;

impl Session {
    /// Sends the beginning of a command on its way whose last argument is still coming, and is
    /// large. Gives how many bytes of it were taken: all, or none.
    pub(super) fn begin_large(
        &mut self,
        commands: &Commands,
        bytes: &[u8],
        client: &Asking,
    ) -> usize {
        self.beginning(commands, bytes).map_or(0, |(home, number, rest)| {
            self.number = number;
            self.look_at_tracking(b"");
            self.writes(home.server);
            // Its bytes are gone when it is answered, so it is not asked again.
            client.stream(Request { own: true, ..self.request(home, bytes) }, rest);
            self.front.metrics.leased.inc();
            bytes.len()
        })
    }

    /// Where it belongs, the number of the command, and how much of it is to come.
    fn beginning(&self, commands: &Commands, bytes: &[u8]) -> Option<(Home, usize, u64)> {
        self.identity?;
        let coming = commands.coming(bytes)?;
        let total = coming.total.filter(|total| *total >= LARGE)?;
        let (spec, number) = commands::find_numbered(coming.command.get(0)?)?;
        let count = i64::try_from(coming.args).ok()?;
        let least = i64::from(spec.arity);
        let fits = if least > 0 { count == least } else { count >= -least };
        let is_plain = spec.what == Do::Write && spec.keys == Keys::At(1);
        let key = coming.command.get(1)?;
        let rest = total.checked_sub(bytes.len() as u64).filter(|rest| *rest > 0)?;
        self.front.look();
        let is_taken =
            || self.front.shared.fleet.is_taken(number, || vec![self.front.home(key).server]);
        let goes = fits && is_plain && self.transaction.is_none() && !is_taken();
        goes.then(|| (self.front.home(key), number, rest))
    }
}
