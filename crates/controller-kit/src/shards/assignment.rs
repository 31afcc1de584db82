//! Assignment of places to members, and the change to it that moves the fewest places.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::places::{Places, Span};

/// Ranges for each member above which the assignment is laid out anew: it has to fit into an annotation.
const RANGES_PER_MEMBER: usize = 8;

/// Epochs of one assignment, at most.
const EPOCHS: u64 = 1 << 24;

/// The first epoch of an assignment that begins anew: above all that are known, and at random. Another one may have been
/// deleted unseen, and what was acknowledged of it must not count.
#[must_use]
pub fn first_epoch(newest: u64, random: u64) -> u64 {
    newest + EPOCHS + (random >> 16)
}

/// Whether a member that has acknowledged one epoch has acknowledged another one with it.
#[must_use]
pub fn is_acknowledged(epoch: u64, acknowledged: u64) -> bool {
    acknowledged.checked_sub(epoch).is_some_and(|later| later < EPOCHS)
}

/// A process that holds a member Lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// `holderIdentity` of its Lease; never used again by another process.
    pub id: String,
    /// Number of its Lease.
    pub slot: usize,
    /// A resource version at which its Lease was seen to be held by it.
    pub seen: u64,
}

impl Member {
    /// Whether both are the same process, whenever they were seen.
    #[must_use]
    pub fn is(&self, id: &str, slot: usize) -> bool {
        self.id == id && self.slot == slot
    }
}

/// A member that owned a range, and the epoch that took it away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Former {
    /// The member.
    pub member: Member,
    /// The owner does not start before the member has acknowledged this epoch, or is gone.
    pub epoch: u64,
}

/// Places up to `last`, from the place after the range before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The last place.
    #[serde(with = "hex")]
    pub last: u64,
    /// The only member that may act.
    pub owner: Member,
    /// Members that may not have stopped yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<Former>,
}

/// Owners of all places. The elected member writes it, and no other process does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Grows whenever an owner changes.
    pub epoch: u64,
    /// The elected process. An assignment of another process than the holder of the Lease is void.
    pub by: String,
    /// Ranges in order; the last one ends at the last place.
    pub ranges: Vec<Range>,
}

impl Assignment {
    /// The ranges with their places.
    pub fn spans(&self) -> impl Iterator<Item = (Span, &Range)> {
        let firsts = std::iter::once(Some(0)).chain(self.ranges.iter().map(|range| range.last.checked_add(1)));
        firsts.zip(&self.ranges).filter_map(|(first, range)| Some((Span { first: first?, last: range.last }, range)))
    }

    /// Whether each place has one owner.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ranges.is_sorted_by(|one, next| one.last < next.last)
            && self.ranges.last().is_some_and(|range| range.last == u64::MAX)
    }

    /// Whether a member of this Lease may act.
    #[must_use]
    pub fn names(&self, slot: usize) -> bool {
        let former = |range: &Range| range.from.iter().any(|former| former.member.slot == slot);
        self.ranges.iter().any(|range| range.owner.slot == slot || former(range))
    }

    /// The places of a member.
    #[must_use]
    pub fn places_of(&self, id: &str, slot: usize) -> Places {
        Places::of(self.spans().filter(|(_, range)| range.owner.is(id, slot)).map(|(span, _)| span))
    }
}

/// State of the other members, for the elected member.
pub trait Known {
    /// The members that hold a Lease.
    fn live(&self) -> Vec<Member>;
    /// Whether a member is known to hold its Lease no longer.
    fn is_gone(&self, member: &Member) -> bool;
    /// Whether a member acts no longer on what an epoch took away.
    fn has_stopped(&self, former: &Former) -> bool;
}

/// The assignment that follows `current`: members that are gone own nothing, and all others own equal shares. `fresh`
/// is the epoch of a start from nothing. None while there is no member.
#[must_use]
pub fn plan(current: Option<&Assignment>, by: &str, known: &impl Known, fresh: u64) -> Option<Assignment> {
    let mut live = known.live();
    live.sort_by(|one, other| (&one.id, one.slot).cmp(&(&other.id, other.slot)));
    let Some(current) = current.filter(|current| current.is_complete()) else {
        return from_nothing(&live, &[], by, fresh);
    };
    // What is not known to be gone keeps what it has.
    for (_, range) in current.spans() {
        let owner = &range.owner;
        if !known.is_gone(owner) && !live.iter().any(|member| member.is(&owner.id, owner.slot)) {
            live.push(owner.clone());
        }
    }
    if live.is_empty() {
        return None;
    }
    let quota = Span::ALL.size().div_ceil(live.len() as u128);
    let epoch = current.epoch + 1;
    let mut pieces = kept(current, &live, quota, known, epoch);
    let moved = pieces.iter().any(|piece| piece.owner.is_none());
    let acting: Vec<Member> = pieces.iter().flat_map(|piece| &piece.from).map(|former| former.member.clone()).collect();
    give(&mut pieces, &live, quota);
    let ranges = merged(pieces);
    if moved && ranges.len() > RANGES_PER_MEMBER * live.len() {
        return from_nothing(&live, &acting, by, epoch);
    }
    Some(Assignment { epoch: if moved { epoch } else { current.epoch }, by: by.to_owned(), ranges })
}

/// Equal shares in the order of the members. Each waits for all others, and for those that may still act.
fn from_nothing(live: &[Member], acting: &[Member], by: &str, epoch: u64) -> Option<Assignment> {
    let count = live.len() as u128;
    let mut all: Vec<&Member> = Vec::new();
    for member in live.iter().chain(acting) {
        if !all.iter().any(|known| known.is(&member.id, member.slot)) {
            all.push(member);
        }
    }
    let ranges = live.iter().zip(1_u128..).map(|(owner, number)| {
        let others = all.iter().filter(|member| !member.is(&owner.id, owner.slot));
        Range {
            last: last_of_share(number, count),
            owner: owner.clone(),
            from: others.map(|&member| Former { member: member.clone(), epoch }).collect(),
        }
    });
    (!live.is_empty()).then(|| Assignment { epoch, by: by.to_owned(), ranges: ranges.collect() })
}

/// The last place of one of so many equal shares, which are counted from 1.
fn last_of_share(number: u128, count: u128) -> u64 {
    let share = Span::ALL.size() / count;
    if number == count { u64::MAX } else { u64::try_from(share * number - 1).unwrap_or(u64::MAX) }
}

/// A part of a range, and its owner if it has one.
struct Piece {
    span: Span,
    owner: Option<Member>,
    from: Vec<Former>,
}

/// Cuts from each owner what is above its quota, and all of those that are gone.
fn kept(current: &Assignment, live: &[Member], quota: u128, known: &impl Known, epoch: u64) -> Vec<Piece> {
    let mut used: HashMap<(&str, usize), u128> = HashMap::new();
    let mut pieces = Vec::new();
    for (span, range) in current.spans() {
        let from: Vec<Former> = range.from.iter().filter(|former| !known.has_stopped(former)).cloned().collect();
        let owner = live.iter().find(|member| member.is(&range.owner.id, range.owner.slot));
        let Some(owner) = owner else {
            pieces.push(Piece { span, owner: None, from });
            continue;
        };
        let used = used.entry((owner.id.as_str(), owner.slot)).or_default();
        let (stays, goes) = split(span, quota.saturating_sub(*used));
        if let Some(span) = stays {
            *used += span.size();
            pieces.push(Piece { span, owner: Some(range.owner.clone()), from: from.clone() });
        }
        if let Some(span) = goes {
            let lost = Former { member: range.owner.clone(), epoch };
            pieces.push(Piece { span, owner: None, from: from.into_iter().chain([lost]).collect() });
        }
    }
    pieces
}

/// Gives the pieces without an owner to the members that have less than their quota.
fn give(pieces: &mut Vec<Piece>, live: &[Member], quota: u128) {
    let mut used: HashMap<(String, usize), u128> = HashMap::new();
    for piece in pieces.iter() {
        if let Some(owner) = &piece.owner {
            *used.entry((owner.id.clone(), owner.slot)).or_default() += piece.span.size();
        }
    }
    let mut room: Vec<(Member, u128)> = live
        .iter()
        .map(|member| {
            let used = used.get(&(member.id.clone(), member.slot)).copied().unwrap_or_default();
            (member.clone(), quota.saturating_sub(used))
        })
        .filter(|(_, room)| *room > 0)
        .collect();
    let mut given = Vec::new();
    for piece in std::mem::take(pieces) {
        if piece.owner.is_some() {
            given.push(piece);
            continue;
        }
        let mut rest = Some(piece.span);
        while let (Some(span), Some((member, room_left))) = (rest, room.last_mut()) {
            let (taken, left) = split(span, *room_left);
            if let Some(span) = taken {
                *room_left -= span.size();
                let others = piece.from.iter().filter(|former| !former.member.is(&member.id, member.slot));
                given.push(Piece { span, owner: Some(member.clone()), from: others.cloned().collect() });
            }
            rest = left;
            if *room_left == 0 {
                room.pop();
            }
        }
    }
    *pieces = given;
}

/// The first places of a span, so many at most, and the rest.
fn split(span: Span, most: u128) -> (Option<Span>, Option<Span>) {
    if most >= span.size() {
        return (Some(span), None);
    }
    match u64::try_from(most) {
        Ok(most) if most > 0 => {
            let last = span.first + (most - 1);
            (Some(Span { first: span.first, last }), Some(Span { first: last + 1, last: span.last }))
        }
        _ => (None, Some(span)),
    }
}

/// One range for neighbours that are alike.
fn merged(pieces: Vec<Piece>) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::with_capacity(pieces.len());
    for Piece { span, owner, from } in pieces {
        let Some(owner) = owner else { continue };
        match ranges.last_mut() {
            Some(range) if range.owner.is(&owner.id, owner.slot) && range.from == from => range.last = span.last,
            _ => ranges.push(Range { last: span.last, owner, from }),
        }
    }
    ranges
}

/// Places as hexadecimal text: JSON numbers are not exact above 2^53.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    pub(super) fn serialize<S: Serializer>(place: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{place:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(|_| D::Error::custom("a place is 16 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests;
