"""The script for spark-submit, with a cluster's master: `spark-submit --master URL spark/submit.py TOPIC`, or `--all` topics.

(A file run by spark-submit is not part of a package, so it only calls one.)
"""

import sys

from headrace.spark.all_topics import command
from headrace.spark.load import load_job

if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--all"]
    sys.exit(load_job.main(words) if len(words) == len(sys.argv) - 1 else command.main(words))
