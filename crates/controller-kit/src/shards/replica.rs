//! One process among the members: what it sends, and where it may act. No I/O and no clock.
//!
//! A process takes a free member Lease when its caches are complete, and competes for the elected Lease. The elected
//! one clears the Leases of members that are gone, and assigns all places to the others.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use super::{
    LeaseAnswer, LeaseRequest, LeaseTarget, SLOTS,
    assignment::{Assignment, Former, Known, Member, first_epoch, plan},
    handover::Duty,
    member::{Heard, MARGIN, Record, Seen},
};
use crate::{
    lease::{LEASE_DURATION, RENEW_DEADLINE, RENEW_PERIOD},
    places::Places,
};

/// One process.
#[derive(Debug)]
pub struct Replica {
    name: String,
    /// Number of member Leases that it has taken or tried to take.
    terms: u32,
    leases: BTreeMap<LeaseTarget, Seen>,
    busy: BTreeSet<LeaseTarget>,
    /// Time at which the last write of each Lease was sent.
    sent: BTreeMap<LeaseTarget, Instant>,
    slot: Option<Slot>,
    /// Time of the last write of the elected Lease.
    elected_at: Option<Instant>,
    /// Time since which it has held the elected Lease that exists.
    elected_since: Option<Instant>,
    claim: Option<(usize, Instant)>,
    duty: Duty,
    /// Number of readings of the caches that have begun.
    readings: u64,
    is_ready: bool,
    heard: Heard,
    /// Time since which all Leases have been known.
    known_since: Option<Instant>,
    /// The newest epoch that it has seen, of an assignment or of an acknowledgement.
    newest: u64,
}

/// The member Lease that the process holds.
#[derive(Debug)]
struct Slot {
    number: usize,
    renewed: Instant,
    acknowledged: u64,
}

impl Replica {
    /// A process of this name, which no other process has ever had.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            terms: 0,
            leases: LeaseTarget::all().map(|target| (target, Seen::default())).collect(),
            busy: BTreeSet::new(),
            sent: BTreeMap::new(),
            slot: None,
            elected_at: None,
            elected_since: None,
            claim: None,
            duty: Duty::default(),
            readings: 0,
            is_ready: false,
            heard: Heard::default(),
            known_since: None,
            newest: 0,
        }
    }

    /// The caches are complete.
    pub fn ready(&mut self) {
        self.is_ready = true;
    }

    /// Until when it may act at all.
    #[must_use]
    pub fn acts_until(&self) -> Option<Instant> {
        self.slot.as_ref().map(|slot| slot.renewed + RENEW_DEADLINE)
    }

    /// Returns the places in which it may act.
    #[must_use]
    pub fn duty(&self) -> &Duty {
        &self.duty
    }

    /// Until when it is the elected member; none if it is not.
    #[must_use]
    pub fn elected_until(&self) -> Option<Instant> {
        self.elected_at.filter(|_| self.holds_elected()).map(|at| at + RENEW_DEADLINE)
    }

    /// Returns the requests that give back the Leases that the process holds. Nothing may run any more, and no request
    /// may be under way.
    #[must_use]
    pub fn leave(&self) -> Vec<LeaseRequest> {
        let slot = self.slot.as_ref().map(|slot| self.write(LeaseTarget::Slot(slot.number), String::new(), 0, None));
        let assignment = self.seen(LeaseTarget::Elected).and_then(Seen::assignment).cloned();
        let elected = self.holds_elected().then(|| self.write(LeaseTarget::Elected, String::new(), 0, assignment));
        slot.into_iter().chain(elected).collect()
    }

    /// A watch has shown a Lease; none if it is gone.
    pub fn observe(&mut self, target: LeaseTarget, record: Option<Record>, now: Instant) {
        self.heard.hear(now);
        self.update(target, |seen| seen.observe(record, now));
        self.follow(now);
    }

    /// A request that was sent at `started` has ended.
    pub fn answered(&mut self, target: LeaseTarget, started: Instant, answer: LeaseAnswer, now: Instant) {
        self.busy.remove(&target);
        match answer {
            LeaseAnswer::Found(record) => {
                self.heard.hear(now);
                self.update(target, |seen| seen.read(record, started, now));
            }
            LeaseAnswer::Written(record) => {
                self.heard.hear(now);
                let acknowledged = record.acknowledged;
                let ours = record.holder == self.id();
                self.update(target, |seen| seen.observe(Some(record), now));
                match target {
                    LeaseTarget::Slot(number) if ours && (self.slot.is_some() || self.claim.is_some()) => {
                        self.hold(number, started, acknowledged);
                    }
                    LeaseTarget::Slot(_) => {}
                    LeaseTarget::Elected => self.elected_at = Some(started),
                }
            }
            LeaseAnswer::Conflict => {
                self.heard.hear(now);
                self.update(target, Seen::read_soon);
            }
            LeaseAnswer::Unknown => self.update(target, Seen::doubt),
        }
        self.follow(now);
    }

    /// Nothing writes any more in these places.
    pub fn drained(&mut self, places: &Places) {
        self.duty.drained(places);
    }

    /// Work runs in these places only.
    pub fn runs_in(&mut self, busy: &Places) {
        self.duty.runs_in(busy);
    }

    /// The version of a Lease that the next write replaces.
    #[must_use]
    pub fn version(&self, target: LeaseTarget) -> Option<u64> {
        self.seen(target).and_then(Seen::version)
    }

    /// Whether all Leases have been seen.
    #[must_use]
    pub fn has_read_leases(&self) -> bool {
        LeaseTarget::all().all(|target| self.seen(target).is_some_and(Seen::is_known))
    }

    /// The number of a reading of all caches that has to begin now.
    pub fn begin_loading(&mut self) -> Option<u64> {
        let (leases, reading) = (&self.leases, self.readings + 1);
        let begins = self.duty.begin_loading(reading, |former| has_stopped(leases, former));
        self.readings += u64::from(begins);
        begins.then_some(reading)
    }

    /// A reading of all caches is complete. Returns where the process acts from now on.
    pub fn loaded(&mut self, reading: u64) -> Places {
        self.duty.loaded(reading)
    }

    /// Returns the requests to send now. `fresh` is a random number, from which an assignment that begins anew gets its
    /// epoch.
    pub fn requests(&mut self, now: Instant, fresh: u64) -> Vec<LeaseRequest> {
        let mut requests: Vec<LeaseRequest> = Vec::new();
        requests.extend(self.own_slot(now));
        requests.extend(self.elected(now, fresh));
        if self.holds_elected() {
            requests.extend(self.cleared(now));
        }
        let unassigned_since = self.elected_since.filter(|_| self.current_assignment().is_none());
        for target in LeaseTarget::all() {
            let is_taken = requests.iter().any(|request| request.target() == target);
            if !is_taken
                && !self.busy.contains(&target)
                && self.begin_read(target, unassigned_since.filter(|_| target != LeaseTarget::Elected), now)
            {
                requests.push(LeaseRequest::Read(target));
            }
        }
        for request in &requests {
            self.busy.insert(request.target());
            if matches!(request, LeaseRequest::Write { .. }) {
                self.sent.insert(request.target(), now);
            }
        }
        requests
    }

    /// Renews the member Lease, or takes a free one.
    fn own_slot(&mut self, now: Instant) -> Option<LeaseRequest> {
        let number = match (&self.slot, self.claim) {
            (Some(slot), _) => slot.number,
            // Until it is known how the attempt ended, no other is made.
            (None, Some((number, _))) => number,
            (None, None) => self.free_slot(now)?,
        };
        let target = LeaseTarget::Slot(number);
        if !self.can_write(target) {
            return None;
        }
        let acknowledged = match &self.slot {
            Some(slot) => {
                let acknowledged = self.duty.acknowledged();
                let awaited = acknowledged != slot.acknowledged && self.duty.is_awaited(slot.acknowledged);
                if !awaited && !self.is_due(target, now) {
                    return None;
                }
                acknowledged
            }
            None => {
                if self.claim.is_none() {
                    self.claim = Some((number, now));
                    self.terms += 1;
                }
                0
            }
        };
        Some(self.write(target, self.id(), acknowledged, None))
    }

    /// A member Lease to take: only a process that can act at once, and only where assignments are followed.
    fn free_slot(&self, now: Instant) -> Option<usize> {
        let elected = self.seen(LeaseTarget::Elected)?;
        let followed = elected.holder().is_none()
            || elected.record().is_some_and(|record| record.valid_assignment().is_some())
            || elected.holder() == Some(self.name.as_str())
            || elected.is_silent(LEASE_DURATION, now);
        if !self.is_ready || !elected.is_known() || !followed {
            return None;
        }
        let heard_since = self.heard.since(now);
        let (assignment, may_lack) = (elected.assignment(), self.may_lack_members(now));
        let may_name = |number| may_lack || assignment.is_some_and(|all| all.names(number));
        (0..SLOTS).find(|number| {
            let seen = self.seen(LeaseTarget::Slot(*number));
            // One that was deleted is not taken from the member that the assignment names.
            let is_deleted = |seen: &Seen| seen.record().is_none() && may_name(*number);
            seen.is_some_and(|seen| seen.is_free(heard_since, now) && !is_deleted(seen))
        })
    }

    /// Renews the elected Lease with the assignment, or takes it. Only a member takes it.
    ///
    /// Where there is no assignment, the Lease is taken without one, and all members' Leases are read before one begins
    /// anew: a request to create the Lease may arrive when another one has been there, and its members act.
    fn elected(&mut self, now: Instant, fresh: u64) -> Option<LeaseRequest> {
        let target = LeaseTarget::Elected;
        self.slot.as_ref()?;
        if !self.can_write(target) || !self.has_read_leases() {
            return None;
        }
        let seen = self.seen(target)?;
        let held = self.holds_elected();
        let free = seen.holder().is_none() || seen.is_silent(LEASE_DURATION, now);
        if !held && !free || self.may_lack_members(now) {
            return None;
        }
        let current = self.current_assignment();
        let assignment = (current.is_some() || self.has_read_members())
            .then(|| plan(current, &self.name, self, first_epoch(self.newest, fresh)))
            .flatten();
        let epoch = |assignment: Option<&Assignment>| assignment.map(|assignment| assignment.epoch);
        let exists = seen.version().is_some();
        if held && exists && epoch(assignment.as_ref()) == epoch(current) && !self.is_due(target, now) {
            return None;
        }
        let assignment = assignment.or_else(|| current.cloned());
        Some(self.write(target, self.name.clone(), 0, assignment))
    }

    /// Takes the Leases from members that are gone.
    fn cleared(&mut self, now: Instant) -> Vec<LeaseRequest> {
        let heard_since = self.heard.since(now);
        let own = self.slot.as_ref().map(|slot| slot.number);
        let assignment = self.seen(LeaseTarget::Elected).and_then(Seen::assignment);
        // One that was deleted is made anew, so that all see that its member is gone.
        let is_deleted =
            |seen: &Seen, number| seen.record().is_none() && assignment.is_some_and(|all| all.names(number));
        let gone = (0..SLOTS).filter(|number| {
            let expired = self.seen(LeaseTarget::Slot(*number)).filter(|seen| seen.has_expired(heard_since, now));
            Some(*number) != own && expired.is_some_and(|seen| seen.holder().is_some() || is_deleted(seen, *number))
        });
        let gone: Vec<LeaseTarget> = gone.map(LeaseTarget::Slot).filter(|target| self.can_write(*target)).collect();
        gone.into_iter().map(|target| self.write(target, String::new(), 0, None)).collect()
    }

    /// The assignment that the next one follows. After a deletion others may have made another one since.
    fn current_assignment(&self) -> Option<&Assignment> {
        let seen = self.seen(LeaseTarget::Elected)?;
        seen.version().and(seen.assignment())
    }

    /// Whether all members' Leases have been read since it has held the elected Lease.
    fn has_read_members(&self) -> bool {
        let was_read = |since| {
            (0..SLOTS).all(|number| self.seen(LeaseTarget::Slot(number)).is_some_and(|seen| seen.was_read(since)))
        };
        self.elected_since.is_some_and(was_read)
    }

    /// Whether a member may act that this process has not seen: the assignment was deleted, and the Lease of the member
    /// too, before this process has seen it.
    fn may_lack_members(&self, now: Instant) -> bool {
        let Some(elected) = self.seen(LeaseTarget::Elected) else { return true };
        if self.current_assignment().is_some() || self.newest == 0 {
            return false;
        }
        let deleted = elected.assignment();
        let is_unknown = |number| self.seen(LeaseTarget::Slot(number)).is_none_or(|seen| seen.record().is_none());
        let names_unknown = deleted.is_some_and(|all| (0..SLOTS).any(|number| all.names(number) && is_unknown(number)));
        let acts = |since: Instant| now.saturating_duration_since(since) < LEASE_DURATION + MARGIN;
        self.known_since.is_none_or(acts) || names_unknown && elected.missing_since().is_some_and(acts)
    }

    fn write(
        &self,
        target: LeaseTarget,
        holder: String,
        acknowledged: u64,
        assignment: Option<Assignment>,
    ) -> LeaseRequest {
        let replaces = self.version(target);
        LeaseRequest::Write { target, replaces, holder, acknowledged, assignment }
    }

    /// Takes note that a member Lease is held since `started`.
    fn hold(&mut self, number: usize, started: Instant, acknowledged: u64) {
        match &mut self.slot {
            Some(slot) => (slot.renewed, slot.acknowledged) = (started.max(slot.renewed), acknowledged),
            None => {
                self.claim = None;
                self.slot = Some(Slot { number, renewed: started, acknowledged });
                self.duty = Duty::new(&self.id(), number, self.duty.ending().clone());
            }
        }
    }

    /// Draws the consequences of what is known of the own member Lease and of the assignment.
    fn follow(&mut self, now: Instant) {
        if self.has_read_leases() {
            self.known_since.get_or_insert(now);
        }
        let epochs = self.leases.values().filter_map(Seen::record).map(Record::epoch);
        self.newest = epochs.fold(self.newest, u64::max);
        let id = self.id();
        // Between a deletion of the Lease and now another one may have taken it from the member: the term ends with it.
        let exists = |number| self.version(LeaseTarget::Slot(number)).is_some();
        let holder = |number| self.seen(LeaseTarget::Slot(number)).and_then(Seen::holder);
        if let Some(number) = self.slot.as_ref().map(|slot| slot.number)
            && !(exists(number) && holder(number) == Some(id.as_str()))
        {
            (self.slot, self.duty) = (None, self.duty.expired());
        }
        if let Some((number, started)) = self.claim
            && let Some(seen) = self.seen(LeaseTarget::Slot(number)).filter(|seen| !seen.is_doubtful())
            && !self.busy.contains(&LeaseTarget::Slot(number))
        {
            match seen.holder() {
                // The answer to the attempt was lost.
                Some(holder) if holder == id && self.version(LeaseTarget::Slot(number)).is_some() => {
                    self.hold(number, started, 0);
                }
                // The attempt failed, or succeeded and was lost since. The next one is a new term: the old name may be
                // in an assignment.
                _ => self.claim = None,
            }
        }
        let is_elected = self.holds_elected() && self.version(LeaseTarget::Elected).is_some();
        self.elected_since = is_elected.then(|| self.elected_since.unwrap_or(now));
        let elected = self.leases.get(&LeaseTarget::Elected).and_then(Seen::record);
        self.duty.observe(elected.and_then(Record::valid_assignment));
    }

    fn begin_read(&mut self, target: LeaseTarget, since: Option<Instant>, now: Instant) -> bool {
        self.leases.get_mut(&target).is_some_and(|seen| seen.begin_read(since, now))
    }

    fn can_write(&self, target: LeaseTarget) -> bool {
        !self.busy.contains(&target) && self.seen(target).is_some_and(|seen| !seen.is_doubtful())
    }

    fn is_due(&self, target: LeaseTarget, now: Instant) -> bool {
        self.sent.get(&target).is_none_or(|sent| now.saturating_duration_since(*sent) >= RENEW_PERIOD)
    }

    fn holds_elected(&self) -> bool {
        self.seen(LeaseTarget::Elected).and_then(Seen::holder) == Some(self.name.as_str())
    }

    /// Name of the member in the present term.
    fn id(&self) -> String {
        format!("{}.{}", self.name, self.terms)
    }

    fn seen(&self, target: LeaseTarget) -> Option<&Seen> {
        self.leases.get(&target)
    }

    fn update(&mut self, target: LeaseTarget, change: impl FnOnce(&mut Seen)) {
        if let Some(seen) = self.leases.get_mut(&target) {
            change(seen);
        }
    }
}

impl Known for Replica {
    fn live(&self) -> Vec<Member> {
        let held = |number: usize| {
            let record = self.seen(LeaseTarget::Slot(number))?.record()?;
            let member = Member { id: record.holder.clone(), slot: number, seen: record.version };
            (!record.holder.is_empty()).then_some(member)
        };
        (0..SLOTS).filter_map(held).collect()
    }

    fn is_gone(&self, member: &Member) -> bool {
        self.seen(LeaseTarget::Slot(member.slot)).is_some_and(|seen| seen.has_lost(member))
    }

    fn has_stopped(&self, former: &Former) -> bool {
        has_stopped(&self.leases, former)
    }
}

fn has_stopped(leases: &BTreeMap<LeaseTarget, Seen>, former: &Former) -> bool {
    leases.get(&LeaseTarget::Slot(former.member.slot)).is_some_and(|seen| seen.has_stopped(former))
}

#[cfg(test)]
mod tests;
