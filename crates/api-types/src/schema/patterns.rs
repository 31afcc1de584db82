//! Regular expressions of string fields.

/// Label of a DNS name, in lower case; containers and generated objects are named so.
pub const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Name of a component; upper case is allowed because names of objects are derived from it in lower case.
pub const COMPONENT_NAME: &str = "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$";

/// Version of the Dynamo runtime, `MAJOR.MINOR.PATCH`, each at most 9999.
pub const VERSION: &str = r"^(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})$";

/// Level of a cluster's topology, such as `rack`.
pub const DOMAIN: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";

/// Key of a label, with or without a prefix.
pub const LABEL_KEY: &str = concat!(
    r"^(([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/)?",
    "([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$"
);

/// Kubernetes quantity, such as `500m` or `8Gi`.
pub const QUANTITY: &str = concat!(
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
);

/// Type of a condition.
pub const CONDITION_TYPE: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
);

/// Reason of a condition.
pub const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
