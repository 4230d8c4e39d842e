"""The suite `collectives`: is every element right, and how fast is each collective?

`correctness` checks every collective with every type at three sizes. `bandwidth` times them and checks the timed
buffers too; three variables of the suite's environment configure it:

    COLLECTIVES_SIZES=1M,64M,1G            bytes, with K, M or G for powers of 1024
    COLLECTIVES_DTYPES=float32,bfloat16
    COLLECTIVES_ITERATIONS=20              of each, after a warm-up
"""
