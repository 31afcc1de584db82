//! Who may read metrics: clients with a bearer token of a user who has the right `get` on `/metrics`. The API server
//! answers both, in a TokenReview and a SubjectAccessReview.

mod answers;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    response::{IntoResponse, Response},
};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use sha2::{Digest, Sha256};
use tokio::{sync::Semaphore, time::timeout};
use tracing::{info, warn};

use self::answers::{Answer, Answers, Fingerprint, Known, Lane};

/// The path that the right is about.
pub(super) const PATH: &str = "/metrics";
/// The longest that both reviews may take.
const REVIEW: Duration = Duration::from_secs(3);
/// Reviews of each lane at the same time.
const CONCURRENT: usize = 4;

/// Asks the API server about clients. Cheap to clone; all clones are one.
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

/// Why a client gets no metrics.
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
        let lane = match self.answers().look_up(&fingerprint, Instant::now()) {
            Known::Answer(answer) => return answer.verdict(),
            Known::TooMany => return Err(Denial::TooMany),
            Known::Review(Lane::Returning) => &self.0.returning,
            Known::Review(Lane::New) => &self.0.new,
        };
        let _slot = lane.try_acquire().map_err(|_| Denial::TooMany)?;
        let outcome = timeout(REVIEW, review(&self.0.client, token)).await;
        let problem = match outcome {
            Ok(Ok(answer)) => {
                if self.0.failing.swap(false, Ordering::Relaxed) {
                    info!("reviewed the token of a metrics client again");
                }
                self.answers().record(fingerprint, answer, Instant::now());
                return answer.verdict();
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", REVIEW.as_secs()),
        };
        if !self.0.failing.swap(true, Ordering::Relaxed) {
            warn!(error = problem, "failed to review the token of a metrics client");
        }
        Err(Denial::Unavailable)
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The token in the headers of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

async fn review(client: &Client, token: &str) -> Result<Answer, kube::Error> {
    let review = TokenReview {
        spec: TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() },
        ..TokenReview::default()
    };
    let review = Api::<TokenReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
    let status = review.status.unwrap_or_default();
    let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
        return Ok(Answer::Unauthenticated);
    };
    let review = SubjectAccessReview { spec: reads_metrics(user), ..SubjectAccessReview::default() };
    let review = Api::<SubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
    let allowed = review.status.is_some_and(|status| status.allowed);
    Ok(if allowed { Answer::Allowed } else { Answer::Forbidden })
}

fn reads_metrics(user: UserInfo) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: user.username,
        uid: user.uid,
        groups: user.groups,
        extra: user.extra,
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some(PATH.to_owned()),
            verb: Some("get".to_owned()),
        }),
        ..SubjectAccessReviewSpec::default()
    }
}

impl Answer {
    fn verdict(self) -> Result<(), Denial> {
        match self {
            Self::Allowed => Ok(()),
            Self::Unauthenticated => Err(Denial::Unauthenticated),
            Self::Forbidden => Err(Denial::Forbidden),
        }
    }
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

#[cfg(test)]
mod tests {
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
}
