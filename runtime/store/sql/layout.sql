-- name: layout_of
-- The drawing of a workflow version in this format, if it was made already.
SELECT drawing FROM qd_layout WHERE workflow_version_id = %s AND format = %s;

-- name: versions_to_draw
SELECT tenant_id, id FROM qd_versions_to_draw(%s, %s);

-- name: store_layout
INSERT INTO qd_layout (workflow_version_id, tenant_id, format, drawing, created_at) VALUES (%s, %s, %s, %s, qd_now())
ON CONFLICT (workflow_version_id) DO UPDATE SET format = excluded.format, drawing = excluded.drawing, created_at = qd_now()
WHERE qd_layout.format <> excluded.format;
