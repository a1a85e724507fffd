//! A client's task: reads what it sends, has requests cut off it, and sees to what waits.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use super::{Client, Dialogue, Fabric, Service, Unanswered};
use crate::drain::Drain;
use crate::outlet::Outlet;
use crate::stream::Stream;

/// Bytes that are read of a client that waits for what others do.
const AHEAD: usize = 64 * 1024;

/// What a client's task goes on with.
enum Event {
    /// Bytes came; they are in the inbox.
    Bytes,
    /// The client sends no more.
    End,
    /// What waits is to be looked at.
    Called,
    /// Weir stops: clients are to come to an end.
    Drain,
    /// Clients had long enough to come to an end.
    Cut,
}

impl<S: Service> Fabric<S> {
    /// Serves a client until it goes, or Weir stops and it has its answers.
    pub async fn serve<D: Dialogue<S>>(self: Rc<Self>, stream: Stream, drain: Drain, dialogue: D) {
        let outlet = Outlet::new(stream, self.settings().spill);
        let client = self.enter(outlet.clone());
        let mut dialogue = dialogue;
        dialogue.begins(&client);
        let task =
            Talk { client: Rc::clone(&client), dialogue, inbox: Vec::new(), has_ended: false };
        task.run(drain).await;
        self.leave(&client);
        outlet.finish().await;
    }
}

struct Talk<S: Service, D> {
    client: Rc<Client<S>>,
    dialogue: D,
    /// What came and is not a whole request yet, or has to wait.
    inbox: Vec<u8>,
    /// The client has ended its side.
    has_ended: bool,
}

impl<S: Service, D: Dialogue<S>> Talk<S, D> {
    async fn run(mut self, drain: Drain) {
        let client = Rc::clone(&self.client);
        let mut draining = pin!(drain.started());
        let mut cut: Option<Pin<Box<tokio::time::Sleep>>> = None;
        loop {
            let outlet = client.outlet.clone();
            outlet.gathered(|| self.advance());
            if client.is_over() {
                return;
            }
            if self.has_ended || client.parting().is_some() {
                client.break_off();
            }
            if client.takes_cut() {
                client.give_up_all(&Unanswered::Cancelled);
            }
            // Whoever is parted gives nothing back in good order: what it has is closed.
            if let Some(words) = client.parting()
                && client.is_answered()
            {
                return outlet.send(words);
            }
            let may_go = self.has_ended || cut.is_some() && !client.is_holding();
            if may_go && !client.holds_back() && client.is_settled() && !client.is_streaming() {
                return;
            }
            self.say_progress();
            let event = poll_fn(|cx| {
                if cut.is_none() && draining.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Ok(Event::Drain));
                }
                if cut.as_mut().is_some_and(|cut| cut.as_mut().poll(cx).is_ready()) {
                    return Poll::Ready(Ok(Event::Cut));
                }
                self.poll_event(cx)
            });
            match event.await {
                Ok(Event::Bytes | Event::Called) => {}
                // Whom nothing can be given any more takes nothing away from others.
                Ok(Event::End) if client.waits_for_others() => return,
                Ok(Event::End) => self.has_ended = true,
                Ok(Event::Drain) => {
                    let limit = client.fabric.settings().drain;
                    cut = Some(Box::pin(tokio::time::sleep_until((Instant::now() + limit).into())));
                }
                Ok(Event::Cut) => {
                    client.end_all(&Unanswered::Draining);
                    cut = Some(Box::pin(tokio::time::sleep(std::time::Duration::MAX)));
                }
                Err(_) => return,
            }
        }
    }

    /// Sends what waits, and asks what has come.
    fn advance(&mut self) {
        let client = Rc::clone(&self.client);
        client.go_on();
        while let Some(server) = client.takes_loss() {
            if let Err(words) = self.dialogue.lease_lost(server, &client) {
                client.part(words);
            }
        }
        self.tell_events();
        let mut at = 0;
        while client.parting().is_none() && !client.is_over() {
            let rest = self.inbox.get(at..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            if client.is_streaming() {
                let fed = client.feed(rest);
                at += fed;
                if fed == 0 {
                    break;
                }
                continue;
            }
            if !self.may_ask() {
                break;
            }
            match self.dialogue.next(rest, &client) {
                // What comes waits for what the dialogue asked first.
                Ok(0) if !self.may_ask() => break,
                Ok(0) => {
                    if rest.len() >= client.fabric.settings().request {
                        let words = client.fabric.service().words(&Unanswered::TooLarge);
                        client.part(words);
                    }
                    break;
                }
                Ok(n) => at += n.min(rest.len()),
                Err(words) => client.part(words),
            }
            self.tell_events();
        }
        self.inbox.drain(..at);
        if self.inbox.is_empty() {
            self.inbox = Vec::new();
        }
        client.count_held(Some(self.inbox.len()));
    }

    /// Has the dialogue hear what has become of what it has asked.
    #[inline]
    fn tell_events(&mut self) {
        while let Some(event) = self.client.takes_event() {
            if let Err(words) = self.dialogue.hears(event, &self.client) {
                self.client.part(words);
            }
        }
    }

    /// Whether another request may be taken now.
    fn may_ask(&self) -> bool {
        let client = &self.client;
        let is_behind = !client.pending.borrow().is_empty() || client.line.borrow().is_half_full();
        !is_behind && !client.holds_back()
    }

    fn say_progress(&self) {
        let progress = self.client.outlet.progress();
        // The rest of a request that is streamed is the client's to send, once its server has taken
        // what came.
        let waits_for_rest = self.client.is_streaming() && self.inbox.is_empty();
        match () {
            () if waits_for_rest => progress.header(),
            () if !self.client.is_settled() || self.client.holds_back() => progress.serving(),
            () if !self.inbox.is_empty() || self.dialogue.is_stranger() => progress.header(),
            () if self.client.is_listening() => progress.serving(),
            () => progress.idle(),
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Event>> {
        let client = &self.client;
        let is_called = client.poll_called(cx).is_ready() || client.poll_takes_kept(cx).is_ready();
        if is_called || client.poll_turn(cx).is_ready() {
            return Poll::Ready(Ok(Event::Called));
        }
        let reads = !self.has_ended && self.takes_more();
        client.is_paused.set(!reads);
        if !reads {
            return Poll::Pending;
        }
        let inbox = &mut self.inbox;
        let mut take = Some(|bytes: Option<&[u8]>| {
            inbox.extend_from_slice(bytes.unwrap_or_default());
            bytes.is_some()
        });
        client
            .outlet
            .poll_read_with(cx, &mut take)
            .map_ok(|some| if some { Event::Bytes } else { Event::End })
    }

    /// Whether more of the client's bytes are to be read.
    fn takes_more(&self) -> bool {
        // A client that waits for others may leave meanwhile.
        if self.client.waits_for_others() && self.inbox.len() < AHEAD {
            return true;
        }
        if self.client.parting().is_some() {
            return false;
        }
        let is_behind =
            if self.client.is_streaming() { !self.inbox.is_empty() } else { !self.may_ask() };
        !is_behind
    }
}
