"""Migrations run the files of ``store/sql/schema`` once: what was released is never edited, only followed by more."""

from __future__ import annotations

import hashlib
from pathlib import Path

SCHEMA = Path(__file__).resolve().parents[2] / "runtime" / "store" / "sql" / "schema"

# The files as 0.1.0 has them. A change goes into a new file and a new migration, and its line is added here.
RELEASED = {
    "approval_groups.sql": "c24dfb32d762b1fb37234bd62f56576cc79a10cda93c7cd3bda89ea1185cae93",
    "approval_policies.sql": "ce18ff06b4f631a943d193a9c445ef571eb5597f3faa3a6b056c6edbcd3d7cdd",
    "approval_reach.sql": "2e7d19678f026cb9133a961e803b69fc99a417f16e6ad1e589360a33ef3f46c7",
    "approvals.sql": "12be868640029f5d4d13e67daf2cf1438871126a19a8f13663157387b283c812",
    "approvals_people.sql": "ec099d8be1dd6cf3d8232cc739b3756b91151c75b94413abfb7bf6c0c02b1674",
    "case_chain.sql": "682644b60116ef25fc31226c5d174f4cb151df41f7bfe5c430b82138edb822f0",
    "case_duties.sql": "c72bc2993ad9a501731941e0cc1882b75193e9e212cf892029a6f3f78a152800",
    "compensation.sql": "9970a89c954078c9f61fcd3b798bc1ec6e2568c393d619ab4955a5dc4d0ca3b6",
    "duty_walls.sql": "75cc91dfb788404dc1e1bb6efbe2ee66830ee24744595aa44fc6506c4135467f",
    "functions.sql": "cfc7e8f96ce3b181fa36434bb32cbadbdbbbbdcf129b9abd289b041efc65c166",
    "guards.sql": "d8a9435b11c2a867ede6a2a21b5d93f73421236b1f46ab0c79bc2cee6333f0c6",
    "held.sql": "4b98a644cf5bec920be5ee47f0f4538ac69e41b750625a0f8c98f18c4e81ced7",
    "in_hand.sql": "2dce1224417e0a8f78aa412084dcd89de2d02ffd006df9808b04a60945447417",
    "layout.sql": "531d4f71545fd4398ee3a8464d4bcc5b9c5cbffb00f714c16a429ed7b41d439b",
    "partitions.sql": "caced3d7946549ff1eb4e7ac3041e159269288a51321b547c58e4742e5d8e041",
    "queue_depth.sql": "87441dd69e7ec0b50a4bdced778040e9755c683fb13feaaddb6d7d156d032141",
    "relay.sql": "73f0f67ccab58243782252206f9aadf93578f647dc0864b7e20b321c50f6013f",
    "limits.sql": "c0fe43327718b015c7603e47c3e0bf2d3ed5c6cda2cdc81d00d366111fc77fcf",
    "repair.sql": "01ba6df2843e74889603d2171056116b497634764b237367fcfcc73a315d84cf",
    "saved_views.sql": "7fa579837da8ea7b4044c4e4337a0228907e653f0173990521924a58c6df3e0f",
    "repair_bulk.sql": "74f5c392ec0f51748084ae262da41a5a97daac46bc4d12b859cfda27bb996156",
    "runbooks.sql": "0a18c53954cf8e946ecef52df63c7c063ec140b7e1b5c0c476421eea46c295fb",
    "sign_ins.sql": "5805f72a4ab6d0465bf672f209f3258d1feb92bc8b634ffe2c2927fda18e14c1",
    "own_grants.sql": "fc6188fc8a68bdb28739c0712c4aa8368803fd9ff2ec0a61bef2a6b820113240",
    "pool_queues.sql": "7298fa49e66510c3fc3b38ca0cea5ee499d3e19d1af737ce4eca8200f7cd0b46",
    "parked.sql": "47dc54d8a579f84f3fa537f37e6a64fbd1df82ebd66069f35003bd5f17b0c2b2",
    "preferences.sql": "7a50676553f49c2e5a321895794fe5ee57983bd97a74f9a1d180138a371bf184",
    "preferred.sql": "a2c35dc5c934df115ae350fb48464663f31f1a1e21ed23f92f5ac886a52b4287",
    "signals.sql": "156792692619e72367b503dc82d00c48276024b53b8eb4c2168baee20f881b6b",
    "statistics.sql": "5b88d3356e71a5808494d4c36305e62c8a3b0877b2a8bf6f4777e38021cd8a3c",
    "operation_queries.sql": "4044d5c932c4b98a738427c2a498f8a9106fa92f5cdf3342524b279a747a5cb0",
    "stop_ends.sql": "cd05e60535e2535215c61b8f503daf127851e4b8e11581b3351cf7b630a0066d",
    "tool_samples.sql": "3f7679c3da26fb730e595b41a90b7924b2940965ca8dc07631c344214cac6fc9",
    "turns.sql": "87869d8d02284704f49759ecfc595007ad83e52075b9a1b541f376dea72e0c7a",
    "usernames.sql": "5d047baf8ed940cedf3118d8f4e1a9fd4fb33cdff4c675f2349c99c9d92abf96",
    "walls.sql": "e5302ea396f84f1df40e89b913a422f27fb0e0557626f6a287f01d0dc7f8ae42",
    "watch.sql": "04323991d19e1c08e5d6469d43df2ad854cafd8dbda3255c5dabad54efa80f5e",
}


def test_released_schema_files_are_never_edited():
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in SCHEMA.glob("*.sql")}
    assert found == RELEASED
