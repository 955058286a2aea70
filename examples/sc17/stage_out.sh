#!/bin/bash
#SBATCH --partition=regular
#SBATCH --nodes=1
#SBATCH --time=00:05:00
#SBATCH --job-name="job_stage_out"

#DW jobdw capacity=@CAPACITY@ access_mode=striped type=scratch pool=wlm_pool

# One file, and the contents of one directory, are copied out after the last command.
#DW stage_out source=$DW_JOB_STRIPED/hello.txt destination=@PFS@/hello.txt type=file
#DW stage_out source=$DW_JOB_STRIPED/outputs destination=@PFS@/outputs type=directory

echo "*** writing a file and a directory"
echo "Hello from the burst buffer" > $DW_JOB_STRIPED/hello.txt
mkdir $DW_JOB_STRIPED/outputs
for step in 1 2 3; do
    echo "result of step $step" > $DW_JOB_STRIPED/outputs/step-$step.txt
done

echo "*** ls -larth $DW_JOB_STRIPED/"
ls -larth $DW_JOB_STRIPED/
