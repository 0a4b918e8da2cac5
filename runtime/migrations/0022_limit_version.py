"""A limit has a version, so that nobody changes another one than they were shown."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runtime", "0021_partitions")]

    operations = [
        migrations.AddField(
            model_name="limit",
            name="version",
            field=models.PositiveIntegerField(
                db_default=1, help_text="Of what people set; taking tokens changes none."
            ),
        ),
    ]
