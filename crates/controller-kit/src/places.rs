//! Places of namespaces, and sets of places.

/// The offset basis and the prime of FNV-1a with 64 bits.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// Multipliers that spread a hash over all places.
const SPREAD: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

/// The place of a namespace: the 64-bit FNV-1a of its name, spread. The last letters of a name hardly change the upper
/// half of an FNV-1a, so that `team-000` to `team-199` would all be neighbours, and belong to one member.
pub fn place(namespace: &str) -> u64 {
    let hash = fnv_1a(namespace);
    let hash = (hash ^ (hash >> 30)).wrapping_mul(SPREAD[0]);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(SPREAD[1]);
    hash ^ (hash >> 31)
}

fn fnv_1a(text: &str) -> u64 {
    text.bytes().fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Places from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first place.
    pub first: u64,
    /// The last place; not below the first.
    pub last: u64,
}

impl Span {
    /// All places.
    pub const ALL: Self = Self { first: 0, last: u64::MAX };

    /// Number of places.
    pub fn size(self) -> u128 {
        u128::from(self.last - self.first) + 1
    }

    fn common(self, other: Self) -> Option<Self> {
        let both = Self { first: self.first.max(other.first), last: self.last.min(other.last) };
        (both.first <= both.last).then_some(both)
    }

    /// Returns the rest without the places of another span.
    fn without(self, other: Self) -> impl Iterator<Item = Self> {
        let before = other.first.checked_sub(1).map(|last| Self { first: self.first, last: last.min(self.last) });
        let after = other.last.checked_add(1).map(|first| Self { first: first.max(self.first), last: self.last });
        [before, after].into_iter().flatten().filter(|span| span.first <= span.last)
    }
}

/// A set of places: spans in order, none of which touches the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places(Vec<Span>);

impl Places {
    /// The places of these spans.
    pub fn of(spans: impl IntoIterator<Item = Span>) -> Self {
        let mut spans: Vec<Span> = spans.into_iter().collect();
        spans.sort_by_key(|span| span.first);
        let mut places: Vec<Span> = Vec::with_capacity(spans.len());
        for span in spans {
            match places.last_mut() {
                Some(last) if span.first <= last.last.saturating_add(1) => last.last = last.last.max(span.last),
                _ => places.push(span),
            }
        }
        Self(places)
    }

    /// Whether a place is in it.
    pub fn contains(&self, place: u64) -> bool {
        let after = self.0.partition_point(|span| span.first <= place);
        after.checked_sub(1).and_then(|index| self.0.get(index)).is_some_and(|span| place <= span.last)
    }

    /// The places of both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self::of(self.0.iter().flat_map(|one| other.0.iter().filter_map(|two| one.common(*two))))
    }

    /// The places of either.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied())
    }

    /// The places that are not in the other set.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = self.0.clone();
        for taken in &other.0 {
            left = left.into_iter().flat_map(|span| span.without(*taken)).collect();
        }
        Self::of(left)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The spans, in order.
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// Share of all places, from 0 to 1.
    #[allow(clippy::cast_precision_loss, reason = "a share for people")]
    pub fn share(&self) -> f64 {
        self.0.iter().map(|span| span.size()).sum::<u128>() as f64 / Span::ALL.size() as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        for (name, expected) in [("", BASIS), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)] {
            assert_eq!(fnv_1a(name), expected, "{name:?}");
        }
    }

    /// A change would let replicas of two releases act in one namespace.
    #[test]
    fn places_are_the_same_in_all_releases() {
        for (name, expected) in [("default", 0xf109_ada1_b3dd_278e), ("team-1", 0xde62_8959_ad50_5d59)] {
            assert_eq!(place(name), expected, "{name:?}");
        }
    }

    #[test]
    fn numbered_names_are_spread_over_equal_shares() {
        let mut shares = [0; 4];
        for number in 0..200 {
            let share = place(&format!("team-{number:03}")) >> 62;
            shares[usize::try_from(share).unwrap()] += 1;
        }
        assert!(shares.iter().all(|count| *count > 30), "{shares:?}");
    }

    fn places() -> impl Strategy<Value = Places> {
        let edge = || prop_oneof![0_u64..20, (u64::MAX - 20)..=u64::MAX];
        prop::collection::vec((edge(), edge()), 0..6)
            .prop_map(|edges| Places::of(edges.into_iter().map(|(a, b)| Span { first: a.min(b), last: a.max(b) })))
    }

    proptest! {
        #[test]
        fn sets_behave_as_sets(a in places(), b in places(), at in prop_oneof![0_u64..22, (u64::MAX - 22)..=u64::MAX]) {
            let (in_a, in_b) = (a.contains(at), b.contains(at));
            prop_assert_eq!(a.and(&b).contains(at), in_a && in_b);
            prop_assert_eq!(a.or(&b).contains(at), in_a || in_b);
            prop_assert_eq!(a.without(&b).contains(at), in_a && !in_b);
            prop_assert_eq!(a.without(&b).or(&a.and(&b)), a);
        }
    }
}
