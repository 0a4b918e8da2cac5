"""What a tenant says of writing calls for which it has no policy (C5.3, A10.2)."""

from __future__ import annotations

from runtime.kernel.seams import Setting

KEY = "approvals.default"
ALLOW, ASK, DENY = "allow", "require_approval", "deny"

SETTINGS = {
    KEY: Setting(
        "What becomes of a writing call while no policy is active and no approval of its workflow lets it through: it "
        "is allowed, people are asked, or it is denied. An active policy denies what none of its rules names.",
        default=ALLOW,
        words=(ALLOW, ASK, DENY),
    )
}
