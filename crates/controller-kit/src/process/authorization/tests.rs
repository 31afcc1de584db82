//! Tests of `authorization`.

use super::*;

#[test]
fn a_token_is_what_follows_the_word_bearer() {
    let of = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        bearer(&headers).map(str::to_owned)
    };
    assert_eq!(of("Bearer x.y").as_deref(), Some("x.y"));
    assert_eq!(of("bearer  x").as_deref(), Some("x"));
    for no_token in ["Bearer", "Bearer ", "Basic eDp5", "x.y"] {
        assert_eq!(of(no_token), None, "{no_token:?}");
    }
    assert_eq!(bearer(&HeaderMap::new()), None);
}

fn token(number: usize) -> Fingerprint {
    let mut token = [0; 32];
    token[..8].copy_from_slice(&number.to_le_bytes());
    token
}

#[test]
fn an_answer_holds_for_a_minute_and_a_rejection_for_ten_seconds() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let cases = [
        (Ok(()), 59, KnownToken::Answer(Ok(()))),
        (Ok(()), 60, KnownToken::Review(ReviewLane::Returning)),
        (Ok(()), 3600, KnownToken::Review(ReviewLane::New)),
        (Err(Denial::Forbidden), 9, KnownToken::Answer(Err(Denial::Forbidden))),
        (Err(Denial::Forbidden), 10, KnownToken::Review(ReviewLane::New)),
        (Err(Denial::Unauthenticated), 9, KnownToken::Answer(Err(Denial::Unauthenticated))),
        (Err(Denial::Unauthenticated), 10, KnownToken::Review(ReviewLane::New)),
    ];
    for (answer, seconds, known) in cases {
        let mut answers = Answers::default();
        answers.record(token(1), answer, start);
        assert_eq!(answers.look_up(&token(1), at(seconds)), known, "{answer:?} after {seconds} s");
        assert_eq!(answers.look_up(&token(2), at(seconds)), KnownToken::Review(ReviewLane::New), "another token");
    }
}

#[test]
fn a_flood_of_tokens_leaves_a_few_reviews_a_second() {
    let (start, mut answers, mut reviews) = (Instant::now(), Answers::default(), Vec::new());
    for number in 0..10_000_u32 {
        let now = start + Duration::from_millis(number.into());
        if answers.look_up(&token(number as usize), now) == KnownToken::Review(ReviewLane::New) {
            reviews.push(now);
        }
    }
    assert_eq!(reviews.len(), 10 * REVIEWS);
    assert!(reviews.windows(REVIEWS + 1).all(|few| few[REVIEWS].duration_since(few[0]) >= SECOND));
}

#[test]
fn a_client_that_reads_metrics_goes_on_during_a_flood() {
    let (start, mut answers) = (Instant::now(), Answers::default());
    answers.record(token(0), Ok(()), start);
    for number in 1..40_000 {
        let now = start + Duration::from_millis(number as u64 * 10);
        if let KnownToken::Review(_) = answers.look_up(&token(number), now) {
            answers.record(token(number), Ok(()), now);
        }
        if number % 1500 == 0 {
            match answers.look_up(&token(0), now) {
                KnownToken::Answer(Ok(())) => {}
                KnownToken::Review(ReviewLane::Returning) => answers.record(token(0), Ok(()), now),
                other => panic!("{other:?} after {:?}", now.duration_since(start)),
            }
        }
        assert!(answers.kept.len() <= ANSWERS);
    }
}
