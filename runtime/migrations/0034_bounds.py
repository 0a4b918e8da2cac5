"""A run keeps what bounds it besides its own budget: the budgets of the runs above it (C1.2)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runtime", "0033_preferences")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="bounds",
            field=models.JSONField(
                help_text="What it shares with runs above: run, calls, effects; null: nothing.", null=True
            ),
        ),
    ]
