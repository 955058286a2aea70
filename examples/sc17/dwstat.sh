#!/bin/bash
#SBATCH --partition=regular
#SBATCH --nodes=1
#SBATCH --time=00:05:00
#SBATCH --job-name="job_dwstat"

#DW jobdw capacity=@CAPACITY@ access_mode=striped type=scratch pool=wlm_pool

echo "*** path of the allocation:"
echo $DW_JOB_STRIPED

echo "*** storage nodes of the allocation:"
# Sites with environment modules want one for dwstat.
if type module >/dev/null 2>&1; then
    module load dws
fi

sessID=$(dwstat sessions | grep $SLURM_JOBID | awk '{print $1}')
echo "session ID is: ${sessID}"
instID=$(dwstat instances | grep $sessID | awk '{print $1}')
echo "instance ID is: ${instID}"
echo "fragments list:"
echo "frag state instID capacity node"
dwstat fragments | grep ${instID}
