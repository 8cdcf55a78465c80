"""What spark-submit is given, where a cluster's master is used: `spark-submit --master URL spark/submit.py TOPIC`.

(A file run by spark-submit is no part of a package, so it only calls one.)
"""

import sys

from headrace.spark.load.load_job import main

if __name__ == "__main__":
    sys.exit(main())
