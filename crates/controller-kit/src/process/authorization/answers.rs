//! Answers about tokens, kept for a limited time, and the number of reviews a second. The caller passes the time.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

/// How long a client with the right reads metrics without another review.
const ALLOWED: Duration = Duration::from_secs(60);
/// How long a client without it is refused without another review.
const REFUSED: Duration = Duration::from_secs(10);
/// How long a token that was allowed goes before new ones.
const RETURNING: Duration = Duration::from_secs(3600);
/// Answers that are kept. More than there are reviews while an answer holds: no flood removes the answer about a client
/// that reads metrics each minute.
const ANSWERS: usize = 1024;
/// Reviews a second of each lane. A scraper has one a minute.
pub(super) const REVIEWS: usize = 5;
const SECOND: Duration = Duration::from_secs(1);

/// SHA-256 of a token.
pub(super) type Fingerprint = [u8; 32];

/// The API server's answer about a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It may read metrics.
    Allowed,
    /// It is no valid token.
    Unauthenticated,
    /// Its user has no right to read metrics.
    Forbidden,
}

/// Tokens of one lane take no reviews from those of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Tokens that were allowed within the last hour.
    Returning,
    /// All others.
    New,
}

/// What is known about a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// An answer that still holds.
    Answer(Answer),
    /// None: a review is to be sent, and counted.
    Review(Lane),
    /// None, and there were too many reviews within the last second.
    TooMany,
}

#[derive(Debug, Default)]
pub(super) struct Answers {
    kept: HashMap<Fingerprint, (Answer, Instant)>,
    /// Times of the last reviews, by lane.
    returning: VecDeque<Instant>,
    new: VecDeque<Instant>,
}

impl Answers {
    /// What is known about a token. A review is counted.
    pub(super) fn look_up(&mut self, token: &Fingerprint, now: Instant) -> Known {
        let kept = self.kept.get(token).copied();
        if let Some((answer, since)) = kept
            && now.duration_since(since) < answer.holds()
        {
            return Known::Answer(answer);
        }
        let allowed =
            kept.is_some_and(|(answer, since)| answer == Answer::Allowed && now.duration_since(since) < RETURNING);
        let (lane, last) = if allowed { (Lane::Returning, &mut self.returning) } else { (Lane::New, &mut self.new) };
        last.retain(|at| now.duration_since(*at) < SECOND);
        if last.len() >= REVIEWS {
            return Known::TooMany;
        }
        last.push_back(now);
        Known::Review(lane)
    }

    /// Keeps an answer.
    pub(super) fn record(&mut self, token: Fingerprint, answer: Answer, now: Instant) {
        if self.kept.len() >= ANSWERS && !self.kept.contains_key(&token) {
            self.kept.retain(|_, (answer, since)| {
                now.duration_since(*since) < if *answer == Answer::Allowed { RETURNING } else { REFUSED }
            });
        }
        if self.kept.len() >= ANSWERS && !self.kept.contains_key(&token) {
            let oldest = self.kept.iter().min_by_key(|(_, (_, since))| *since).map(|(token, _)| *token);
            oldest.map(|oldest| self.kept.remove(&oldest));
        }
        self.kept.insert(token, (answer, now));
    }
}

impl Answer {
    fn holds(self) -> Duration {
        match self {
            Self::Allowed => ALLOWED,
            Self::Unauthenticated | Self::Forbidden => REFUSED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: usize) -> Fingerprint {
        let mut token = [0; 32];
        token[..8].copy_from_slice(&number.to_le_bytes());
        token
    }

    #[test]
    fn an_answer_holds_for_a_minute_and_a_refusal_for_ten_seconds() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let cases = [
            (Answer::Allowed, 59, Known::Answer(Answer::Allowed)),
            (Answer::Allowed, 60, Known::Review(Lane::Returning)),
            (Answer::Allowed, 3600, Known::Review(Lane::New)),
            (Answer::Forbidden, 9, Known::Answer(Answer::Forbidden)),
            (Answer::Forbidden, 10, Known::Review(Lane::New)),
            (Answer::Unauthenticated, 9, Known::Answer(Answer::Unauthenticated)),
            (Answer::Unauthenticated, 10, Known::Review(Lane::New)),
        ];
        for (answer, seconds, known) in cases {
            let mut answers = Answers::default();
            answers.record(token(1), answer, start);
            assert_eq!(answers.look_up(&token(1), at(seconds)), known, "{answer:?} after {seconds} s");
            assert_eq!(answers.look_up(&token(2), at(seconds)), Known::Review(Lane::New), "another token");
        }
    }

    #[test]
    fn a_flood_of_tokens_leaves_a_few_reviews_a_second() {
        let (start, mut answers, mut reviews) = (Instant::now(), Answers::default(), Vec::new());
        for number in 0..10_000_u32 {
            let now = start + Duration::from_millis(number.into());
            if answers.look_up(&token(number as usize), now) == Known::Review(Lane::New) {
                reviews.push(now);
            }
        }
        assert_eq!(reviews.len(), 10 * REVIEWS);
        assert!(reviews.windows(REVIEWS + 1).all(|few| few[REVIEWS].duration_since(few[0]) >= SECOND));
    }

    #[test]
    fn a_client_that_reads_metrics_goes_on_during_a_flood() {
        let (start, mut answers) = (Instant::now(), Answers::default());
        answers.record(token(0), Answer::Allowed, start);
        for number in 1..40_000 {
            let now = start + Duration::from_millis(number as u64 * 10);
            if let Known::Review(_) = answers.look_up(&token(number), now) {
                answers.record(token(number), Answer::Allowed, now);
            }
            if number % 1500 == 0 {
                match answers.look_up(&token(0), now) {
                    Known::Answer(Answer::Allowed) => {}
                    Known::Review(Lane::Returning) => answers.record(token(0), Answer::Allowed, now),
                    other => panic!("{other:?} after {:?}", now.duration_since(start)),
                }
            }
            assert!(answers.kept.len() <= ANSWERS);
        }
    }
}
