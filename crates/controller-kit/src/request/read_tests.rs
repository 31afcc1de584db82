//! Tests of reads that no cache answers.

use std::future::{pending, ready};

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::{
    failure::{ErrorType, Failure, Retry},
    request::{Interruption, find, is_object_name, read},
    store::Packed,
};

/// Found defect: it was read again and again, every five minutes for ever.
#[test]
fn what_cannot_be_read_is_skipped_until_it_changes() {
    let odd = Packed::<ConfigMap>::from_value(json!({ "metadata": { "name": "a" }, "data": 1 })).unwrap();
    let error = Interruption::from(odd.unpack().unwrap_err());
    assert_eq!((error.error_type(), error.retry()), (ErrorType::Validation, Retry::AwaitChange));
}

#[test]
fn only_names_of_objects_become_part_of_a_path() {
    let longest = "a".repeat(253);
    for name in ["a", "0", "a-b.c-0", longest.as_str()] {
        assert!(is_object_name(name), "{name}");
    }
    let too_long = "a".repeat(254);
    for name in [
        "",
        ".",
        "..",
        "a.",
        ".a",
        "a..b",
        "-a",
        "a-",
        "A",
        "a_b",
        "a/b",
        "../../victim/secrets/regcred",
        "a?limit=1",
        "a%2fb",
        "a b",
        "ä",
        too_long.as_str(),
    ] {
        assert!(!is_object_name(name), "{name}");
    }
}

/// Found defect: a name that a user wrote became part of the path as it was.
#[tokio::test]
async fn what_has_no_name_of_an_object_is_not_there_and_not_requested() {
    async fn request() -> kube::Result<Option<()>> {
        panic!("a request was sent")
    }
    assert_eq!(find("../victim", || "read".to_owned(), request()).await.unwrap(), None);
    assert_eq!(find("mine", || "read".to_owned(), ready(Ok(Some(1)))).await.unwrap(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn an_error_says_what_was_tried_and_what_came_back() {
    let status = kube::core::Status { code: 403, message: "no".to_owned(), ..Default::default() };
    let refused = ready(Err::<(), _>(kube::Error::Api(status.boxed())));
    let error = read(|| "list pods of n".to_owned(), refused).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot list pods of n: "), "{error}");
    assert_eq!(error.error_type(), ErrorType::Forbidden);
    let error = read(|| "read Secret n/a".to_owned(), pending::<kube::Result<()>>()).await.unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.error_type()),
        ("cannot read Secret n/a: no answer in time", ErrorType::Timeout)
    );
}
