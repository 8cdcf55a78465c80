"""The script for spark-submit, with a cluster's master: `spark-submit --master URL spark/submit.py TOPIC`.

(A file run by spark-submit is not part of a package, so it only calls one.)
"""

import sys

from headrace.spark.load.load_job import main

if __name__ == "__main__":
    sys.exit(main())
