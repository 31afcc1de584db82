//! Who may do what others may not.

use super::{Facts, Request};

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Whether the request comes from the operator itself.
pub(super) fn is_operator(request: &Request, facts: &Facts) -> bool {
    let user = &request.user_info.username;
    !user.is_empty() && facts.principals.operators.contains(user)
}

/// Whether the user may set replicas that belong to a scaling adapter: the operator, and the planners of the graph's
/// own namespace. A planner of another namespace has no such right. While this install does not hold the namespace,
/// a user who scales there may be the operator.
pub(super) fn may_scale(request: &Request, facts: &Facts) -> bool {
    let account = request.user_info.username.strip_prefix(SERVICE_ACCOUNT);
    let of_namespace = account.and_then(|account| account.strip_prefix(request.namespace.as_str())?.strip_prefix(':'));
    let is_planner = !request.namespace.is_empty()
        && of_namespace.is_some_and(|name| facts.principals.planners.iter().any(|planner| planner == name));
    is_planner || is_operator(request, facts) || facts.principals.another_operator
}

/// Whether the user may choose the program that runs a graph. Where the operator does not know its own accounts, no
/// user could, and graphs without a choice would stay so for ever.
pub(super) fn may_choose_provider(request: &Request, facts: &Facts) -> bool {
    let unknown = facts.principals.operators.is_empty() || facts.principals.another_operator;
    unknown || is_operator(request, facts)
}
