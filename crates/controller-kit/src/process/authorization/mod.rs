//! Authorization of clients that read metrics: those with a bearer token of a user who has the right `get` on
//! `/metrics`.
//!
//! The API server answers both, in a TokenReview and a SubjectAccessReview. Its answers about tokens are kept for a
//! limited time, and the number of reviews a second is limited. The caller passes the time.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    response::{IntoResponse, Response},
};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use sha2::{Digest, Sha256};
use tokio::{sync::Semaphore, time::timeout};
use tracing::{info, warn};

use crate::sync::locked;

/// The path that the right is about.
pub(super) const PATH: &str = "/metrics";
/// The longest that both reviews may take.
const REVIEW: Duration = Duration::from_secs(3);
/// Reviews of each lane at the same time.
const CONCURRENT: usize = 4;

/// Authorizes clients by the API server. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(super) struct Authorizer(Arc<AuthorizerInner>);

struct AuthorizerInner {
    client: Client,
    answers: Mutex<Answers>,
    returning: Semaphore,
    new: Semaphore,
    /// Whether the last review failed, for the log.
    failing: AtomicBool,
}

/// Reason why a client gets no metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denial {
    /// It has shown no token, or none that is valid.
    Unauthenticated,
    /// Its user has no right to read metrics.
    Forbidden,
    /// There are too many reviews.
    TooMany,
    /// The API server has not answered.
    Unavailable,
}

impl Authorizer {
    /// `client` has the rights [`crate::access::METRICS`].
    pub(super) fn new(client: Client) -> Self {
        let (returning, new) = (Semaphore::new(CONCURRENT), Semaphore::new(CONCURRENT));
        Self(Arc::new(AuthorizerInner {
            client,
            answers: Mutex::default(),
            returning,
            new,
            failing: AtomicBool::new(false),
        }))
    }

    /// Whether the client that sent these headers may read metrics.
    pub(super) async fn authorize(&self, headers: &HeaderMap) -> Result<(), Denial> {
        let token = bearer(headers).ok_or(Denial::Unauthenticated)?;
        let fingerprint: Fingerprint = Sha256::digest(token).into();
        let lane = match locked(&self.0.answers).look_up(&fingerprint, Instant::now()) {
            KnownToken::Answer(answer) => return answer,
            KnownToken::Review(ReviewLane::Returning) => &self.0.returning,
            KnownToken::Review(ReviewLane::New) => &self.0.new,
        };
        let _slot = lane.try_acquire().map_err(|_| Denial::TooMany)?;
        let outcome = timeout(REVIEW, review(&self.0.client, token)).await;
        let problem = match outcome {
            Ok(Ok(answer)) => {
                if self.0.failing.swap(false, Ordering::Relaxed) {
                    info!("reviewed the token of a metrics client again");
                }
                locked(&self.0.answers).record(fingerprint, answer, Instant::now());
                return answer;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", REVIEW.as_secs()),
        };
        if !self.0.failing.swap(true, Ordering::Relaxed) {
            warn!(error = problem, "failed to review the token of a metrics client");
        }
        Err(Denial::Unavailable)
    }
}

/// The token in the headers of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

async fn review(client: &Client, token: &str) -> Result<ReviewAnswer, kube::Error> {
    let review = TokenReview {
        spec: TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() },
        ..TokenReview::default()
    };
    let review = Api::<TokenReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
    let status = review.status.unwrap_or_default();
    let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
        return Ok(Err(Denial::Unauthenticated));
    };
    let reading = NonResourceAttributes { path: Some(PATH.to_owned()), verb: Some("get".to_owned()) };
    let spec = SubjectAccessReviewSpec {
        user: user.username,
        uid: user.uid,
        groups: user.groups,
        extra: user.extra,
        non_resource_attributes: Some(reading),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let review = Api::<SubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
    let allowed = review.status.is_some_and(|status| status.allowed);
    Ok(allowed.then_some(()).ok_or(Denial::Forbidden))
}

impl IntoResponse for Denial {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "metrics need a valid bearer token"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "the user of the token has no right to get /metrics"),
            Self::TooMany => (StatusCode::TOO_MANY_REQUESTS, "too many reviews of tokens; try again"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "the API server reviewed no token; try again"),
        };
        (status, text).into_response()
    }
}

/// Time for which a client with the right reads metrics without another review.
const ALLOWED: Duration = Duration::from_secs(60);
/// Time for which a client without it is refused without another review.
const REFUSED: Duration = Duration::from_secs(10);
/// Time for which a token that was allowed has precedence over new ones.
const RETURNING: Duration = Duration::from_secs(3600);
/// Answers that are kept. More than there are reviews while an answer holds: no flood removes the answer about a client
/// that reads metrics each minute.
const ANSWERS: usize = 1024;
/// Reviews a second of each lane. A scraper has one a minute.
const REVIEWS: usize = 5;
const SECOND: Duration = Duration::from_secs(1);

/// SHA-256 of a token.
type Fingerprint = [u8; 32];

/// The API server's answer about a token: whether it may read metrics.
type ReviewAnswer = Result<(), Denial>;

/// Tokens of one lane take no reviews from those of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReviewLane {
    /// Tokens that were allowed within the last hour.
    Returning,
    /// All others.
    New,
}

/// Result of the lookup of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownToken {
    /// An answer that still holds, or a denial because there were too many reviews within the last second.
    Answer(ReviewAnswer),
    /// None: a review is to be sent, and counted.
    Review(ReviewLane),
}

#[derive(Debug, Default)]
struct Answers {
    kept: HashMap<Fingerprint, (ReviewAnswer, Instant)>,
    /// Times of the last reviews, by lane.
    returning: VecDeque<Instant>,
    new: VecDeque<Instant>,
}

impl Answers {
    /// Returns the known answer about a token, or the next step. A review is counted.
    fn look_up(&mut self, token: &Fingerprint, now: Instant) -> KnownToken {
        let kept = self.kept.get(token).copied();
        let holds = |answer: ReviewAnswer| if answer.is_ok() { ALLOWED } else { REFUSED };
        if let Some((answer, since)) = kept
            && now.duration_since(since) < holds(answer)
        {
            return KnownToken::Answer(answer);
        }
        let allowed = kept.is_some_and(|(answer, since)| answer.is_ok() && now.duration_since(since) < RETURNING);
        let (lane, last) =
            if allowed { (ReviewLane::Returning, &mut self.returning) } else { (ReviewLane::New, &mut self.new) };
        last.retain(|at| now.duration_since(*at) < SECOND);
        if last.len() >= REVIEWS {
            return KnownToken::Answer(Err(Denial::TooMany));
        }
        last.push_back(now);
        KnownToken::Review(lane)
    }

    /// Keeps an answer.
    fn record(&mut self, token: Fingerprint, answer: ReviewAnswer, now: Instant) {
        if self.kept.len() >= ANSWERS && !self.kept.contains_key(&token) {
            self.kept.retain(|_, (answer, since)| {
                now.duration_since(*since) < if answer.is_ok() { RETURNING } else { REFUSED }
            });
        }
        if self.kept.len() >= ANSWERS && !self.kept.contains_key(&token) {
            let oldest = self.kept.iter().min_by_key(|(_, (_, since))| *since).map(|(token, _)| *token);
            oldest.map(|oldest| self.kept.remove(&oldest));
        }
        self.kept.insert(token, (answer, now));
    }
}
