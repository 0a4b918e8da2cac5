"""The permissions of this app."""

READ = "repair.read"
OPEN = "repair.open"
WORK = "repair.work"
REVIEW = "repair.review"
WRITE_OFF = "repair.write_off"
RUNBOOK = "repair.runbook"

VERBS: dict[str, str] = {
    READ: "See repair cases, what is known of them and who owns them.",
    OPEN: "Open a repair case by hand.",
    WORK: "Claim, investigate, propose and carry out repairs, hand them over.",
    REVIEW: "Review another person's proposed repair.",
    WRITE_OFF: "Give an effect up for good.",
    RUNBOOK: "Write the runbooks that cases show.",
}
# What the audit tells apart beside verbs.
ACTS = tuple(
    f"repair.{act}"
    for act in (
        "ask claim hand_over investigate keep_pending propose release resolve"
        " bulk.prepare bulk.order bulk.review bulk.pause bulk.go_on bulk.abort"
    ).split()
)
READERS = ("viewer", "approver", "oncall", "finance", "integrator", "verifier")
ROLES: dict[str, tuple[str, ...]] = {"oncall": (OPEN, WORK, REVIEW), "approver": (REVIEW,)}
