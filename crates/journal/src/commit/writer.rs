//! The journal thread: takes what all workers have appended as one group, writes it, syncs it,
//! and says so. It never waits for more to come: a group is what came while the last was written,
//! or while another thread had the CPU.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use disk::ZEROS;

use crate::acks::{Acks, TakenBuffer};
use crate::commit::urgency::Urgency;
use crate::cursors::Cursors;
use crate::cursors::ledger::Ends;
use crate::cursors::tail::{Piece, TailGroup};
use crate::format::group::{self, Header};
use crate::format::segment::Segment;
use crate::log::Log;
use crate::log::gate::Room;
use crate::owners::Owners;
use crate::position::{Counts, Position};
use crate::threads::now_ns;

/// How long a group that finds no room waits between two attempts to write it.
const ROOM_RETRY: std::time::Duration = std::time::Duration::from_millis(100);

/// The state of the journal thread.
pub(crate) struct Writer {
    log: Arc<Log>,
    acks: Arc<Acks>,
    cursors: Arc<Cursors>,
    active: Option<Arc<Segment>>,
    /// Where the next group goes.
    end: Position,
    /// The end of the group before.
    previous_end: Position,
    counts: Counts,
    synced_end: Position,
    /// The flushes that had begun before the last group was written.
    flushes: u64,
}

/// Why a group was not written.
enum Failure {
    /// There will be no more room: the journal is closed meanwhile.
    Closed,
    /// The disk failed; nothing can be acknowledged any more.
    Disk(&'static str, io::Error),
}

impl Writer {
    /// Begins after what was recovered: with a new segment.
    pub fn new(owners: Owners) -> Writer {
        let Owners { log, acks, cursors } = owners;
        let Ends { released: end, counts, synced: synced_end } = cursors.ends();
        Writer {
            log,
            acks,
            cursors,
            active: None,
            end,
            previous_end: end,
            counts,
            synced_end,
            flushes: 0,
        }
    }

    /// Works until the journal is closed and everything taken is written.
    pub fn run(mut self) {
        let (log, acks, cursors) = (self.log.clone(), self.acks.clone(), self.cursors.clone());
        let owners = Owners { log, acks, cursors };
        let Owners { log, acks, .. } = &owners;
        acks.writer().attach();
        self.refresh_limit();
        let mut urgency = Urgency::new();
        loop {
            // Read before the buffers: whoever comes into a buffer after this sees it closed.
            let closed = log.gate().is_closed();
            let group = acks.take();
            if log.gate().poisoned().is_some() {
                if closed {
                    break;
                }
                acks.writer().sleep(None, || log.gate().is_closed());
                continue;
            }
            if !group.is_empty() {
                match self.commit(group) {
                    Ok(records) => {
                        urgency.note(records);
                        // Whoever waits for this CPU goes first, at once where nobody does: a
                        // worker that does makes the next group larger.
                        std::thread::yield_now();
                    }
                    Err(Failure::Closed) => break,
                    Err(Failure::Disk(doing, error)) => {
                        owners.poison(&format!("could not {doing} a group: {error}"));
                    }
                }
            } else if closed {
                break;
            } else {
                acks.writer().sleep(None, || {
                    log.gate().is_closed() || log.gate().poisoned().is_some() || acks.has_open()
                });
            }
        }
        owners.finish();
    }

    /// Gives how many records the group had.
    fn commit(&mut self, group: Vec<TakenBuffer>) -> Result<u32, Failure> {
        let len: usize = group.iter().map(|taken| taken.open.bytes.len()).sum();
        let needed = (group::HEADER_LEN + len) as u64;
        let segment = self.segment_with_room(needed)?;
        let header = self.header(&group, len);
        self.end = header.end();
        self.refresh_limit();
        self.log.gate().release(len as u64);
        let written = Instant::now();
        self.write(&segment, &header, &group)?;
        self.log.metrics().write.observe(written.elapsed());
        if self.log.is_durable() {
            let synced = Instant::now();
            self.log.sync(&segment).map_err(|error| Failure::Disk("sync", error))?;
            self.log.metrics().sync.observe(synced.elapsed());
            self.synced_end = header.end();
        }
        self.previous_end = header.end();
        self.counts = header.after();
        self.publish(&header, group);
        Ok(header.records)
    }

    fn header(&self, group: &[TakenBuffer], len: usize) -> Header {
        let synced_end =
            if self.log.is_durable() { self.synced_end } else { self.cursors.ends().synced };
        let mut header = Header {
            // A group fits into a segment, and a segment's length has 31 bits.
            len: u32::try_from(len).unwrap_or(u32::MAX),
            records: 0,
            controls: 0,
            chain: 0,
            position: self.end,
            previous_end: self.previous_end,
            synced_end,
            written_at: now_ns(),
            items: 0,
            before: self.counts,
        };
        for TakenBuffer { open, .. } in group {
            header.records += open.records;
            header.controls += open.controls;
            header.items += open.items;
            header.chain = group::join(header.chain, open.chain, open.records);
        }
        header
    }

    /// Writes a group and zeros up to the end of its last page: whole pages are never read from
    /// the disk first, and recovery finds no leavings of a recycled segment right behind.
    fn write(
        &self,
        segment: &Segment,
        header: &Header,
        group: &[TakenBuffer],
    ) -> Result<(), Failure> {
        let head = header.encode(self.log.salt());
        let padding = segment.next_page(header.end()).since(header.end());
        let mut parts: Vec<&[u8]> = Vec::with_capacity(group.len() + 2);
        parts.push(&head);
        parts.extend(group.iter().map(|taken| taken.open.bytes.as_slice()));
        parts.push(&ZEROS[..padding as usize]);
        let offset = segment.offset(header.position);
        loop {
            match self.log.write(segment, &parts, offset) {
                Ok(()) => break,
                Err(error) if disk::is_full(&error) => self.wait_for_disk(&error)?,
                Err(error) => return Err(Failure::Disk("write", error)),
            }
        }
        self.unstick();
        Ok(())
    }

    /// Waits a moment because the disk took no more, with everyone who waits told so.
    fn wait_for_disk(&self, error: &io::Error) -> Result<(), Failure> {
        if self.log.gate().is_closed() {
            return Err(Failure::Closed);
        }
        if self.log.gate().room() != Room::DiskFull {
            tracing::error!(%error, "the disk with the journal is full: writes are refused");
        }
        self.log.gate().set_room(Room::DiskFull);
        self.log.gate().set_limit(0);
        self.stick(Room::DiskFull);
        self.acks.writer().sleep(Some(ROOM_RETRY), || self.log.gate().is_closed());
        Ok(())
    }

    fn stick(&self, room: Room) {
        self.log.gate().set_stuck(room);
        self.acks.wake_all();
    }

    fn unstick(&self) {
        if self.log.gate().refusal().is_some() {
            self.log.gate().set_stuck(Room::Yes);
            tracing::info!("the journal has room again: writes are taken");
            self.refresh_limit();
        }
    }

    /// The segment the next group goes to; another one when the active has no room for it.
    fn segment_with_room(&mut self, needed: u64) -> Result<Arc<Segment>, Failure> {
        let apart = self.is_page_under_way();
        if let Some(active) = &self.active {
            let page = active.next_page(self.end);
            let places = [apart.then_some(page), Some(self.end)];
            let fits = |at: &Position| at.after(needed) <= active.end();
            if let Some(at) = places.into_iter().flatten().find(fits) {
                self.end = at;
                return Ok(active.clone());
            }
        }
        let next = self.next_segment()?;
        self.unstick();
        self.end = next.base;
        self.active = Some(next.clone());
        Ok(next)
    }

    /// Whether the page that the last group ends in may be on its way to the disk because of a
    /// flush. The kernel locks it until the disk's queue has room for it, so that a write into it
    /// waits for the disk: the next group begins on a page of its own.
    fn is_page_under_way(&mut self) -> bool {
        let (begun, under_way) = self.log.flushes();
        let before = std::mem::replace(&mut self.flushes, begun);
        !self.log.is_durable() && (under_way || begun != before)
    }

    /// The prepared segment. While there is none, those who wait are told why.
    fn next_segment(&self) -> Result<Arc<Segment>, Failure> {
        let gate = self.log.gate();
        self.log.next_segment(self.previous_end, self.counts, |refused| {
            if let Some(room) = refused {
                self.stick(room);
            }
            if gate.is_closed() && refused.is_some() {
                return Err(Failure::Closed);
            }
            match gate.poisoned() {
                Some(reason) => Err(Failure::Disk("place", io::Error::other(reason.to_owned()))),
                None => Ok(()),
            }
        })
    }

    /// Says how much may be appended before the next group is taken: all that fits into a group,
    /// but no more than has a place when no further segment can be had.
    fn refresh_limit(&self) {
        let left = self.active.as_ref().map_or(0, |s| s.end().since(self.end));
        let left = left.saturating_sub(group::HEADER_LEN as u64);
        self.log.refresh_limit(Some(left));
    }

    /// Makes the group visible and wakes each worker once.
    fn publish(&self, header: &Header, group: Vec<TakenBuffer>) {
        self.count(header, &group);
        let mut pieces = Vec::with_capacity(group.len());
        let mut done = Vec::with_capacity(group.len());
        let (mut position, mut before) = (header.body(), header.before);
        for TakenBuffer { queue, mut open } in group {
            for (offset, placed) in open.placing.drain(..) {
                let at = position.after(offset as u64);
                placed.store(at.0, std::sync::atomic::Ordering::Release);
            }
            let len = open.bytes.len() as u64;
            let after = before
                + Counts { items: open.items, controls: u64::from(open.controls), bytes: len };
            pieces.push(Piece { position, before, after, bytes: Arc::new(self.fit(open.bytes)) });
            (position, before) = (position.after(len), after);
            done.push((queue, open.last));
        }
        let released = TailGroup {
            position: header.position,
            previous_end: header.previous_end,
            end: header.end(),
            written_at: header.written_at,
            pieces,
        };
        let is_synced = self.log.is_durable();
        let effects = self.cursors.release(released, header.after(), is_synced);
        for (queue, last) in done {
            queue.acknowledge(last);
        }
        for consumer in effects.wake {
            consumer.notify_one();
        }
        self.cursors.recycle(effects.evicted);
    }

    /// The records in a buffer not much larger than they are: the memory tail is limited by what
    /// its buffers take, and a large one is wanted back for the next group.
    fn fit(&self, bytes: Vec<u8>) -> Vec<u8> {
        if bytes.capacity() <= 2 * bytes.len() {
            return bytes;
        }
        let fitting = bytes.as_slice().to_vec();
        self.acks.recycle(bytes);
        fitting
    }

    fn count(&self, header: &Header, group: &[TakenBuffer]) {
        let metrics = self.log.metrics();
        metrics.groups.inc();
        metrics.records.add(u64::from(header.records));
        metrics.items.add(header.items);
        metrics.controls.add(u64::from(header.controls));
        metrics.bytes.add(u64::from(header.len));
        if let Some(since) = group.iter().filter_map(|taken| taken.open.since).min() {
            metrics.wait.observe(since.elapsed());
        }
    }
}
