#!/bin/bash
#SBATCH --partition=regular
#SBATCH --nodes=1
#SBATCH --time=00:05:00
#SBATCH --job-name="job_use_persistent"

# Attach the instance by its name, and stage a directory into it. The variable's name ends in the name of the instance.
#DW persistentdw name=@NAME@
#DW stage_in source=@PFS@/data destination=$DW_PERSISTENT_STRIPED_@NAME@/data type=directory

echo "*** path of the persistent instance:"
echo $DW_PERSISTENT_STRIPED_@NAME@

echo "*** jobs that were here before:"
cat $DW_PERSISTENT_STRIPED_@NAME@/visitors 2>/dev/null
echo "job $SLURM_JOB_ID" >> $DW_PERSISTENT_STRIPED_@NAME@/visitors

echo "*** ls -lrt $DW_PERSISTENT_STRIPED_@NAME@/data"
ls -lrt $DW_PERSISTENT_STRIPED_@NAME@/data
