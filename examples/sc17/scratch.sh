#!/bin/bash
#SBATCH --partition=regular
#SBATCH --nodes=1
#SBATCH --time=00:05:00
#SBATCH --job-name="job_scratch"

# A scratch allocation that lives as long as the job, striped over storage nodes of the default pool.
#DW jobdw capacity=@CAPACITY@ access_mode=striped type=scratch pool=wlm_pool

echo "*** path of the allocation:"
echo $DW_JOB_STRIPED

echo "*** writing a file"
echo "Hello from the burst buffer" > $DW_JOB_STRIPED/hello.txt

echo "*** ls -larth $DW_JOB_STRIPED/"
ls -larth $DW_JOB_STRIPED/

echo "*** cat $DW_JOB_STRIPED/hello.txt"
cat $DW_JOB_STRIPED/hello.txt
