"""The permissions of this app."""

READ = "approval.read"
DECIDE = "approval.decide"
ANSWER = "approval.answer"
POLICY = "policy.propose"
ASK = "approval.ask"

VERBS: dict[str, str] = {
    READ: "See approval requests; what is to be decided needs payload.read too.",
    DECIDE: "Approve or reject requests that name one's role.",
    ANSWER: "Answer requests for an input that name one's role; an answer approves nothing.",
    ASK: "Ask for approvals of one's own actions, use what was granted once, and report what came of it.",
    POLICY: "Propose rules for approvals and try them on the past; another person activates them.",
}
# What the audit tells apart beside verbs.
_TOLD_APART = (
    "claim release delegate extend escalate propose report revoke stand_in stand_in_end use withdraw"
    " group group_remove manager"
)
ACTS = (*(f"approval.{act}" for act in _TOLD_APART.split()), "policy.activate")
READERS = ("viewer", "approver", "oncall", "finance", "integrator", "verifier")
DECIDERS = ("approver",)
ASKERS = ("integrator",)
ANSWERERS = ("approver", "oncall", "finance")
