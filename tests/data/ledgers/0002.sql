BEGIN TRANSACTION;
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE attach (
  attach TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  decided_ns INTEGER NOT NULL,
  launch TEXT NOT NULL,
  rank INTEGER NOT NULL,
  world INTEGER NOT NULL,
  host TEXT NOT NULL,
  engine TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  uid INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  residency TEXT,
  kind TEXT NOT NULL,
  device TEXT NOT NULL,
  decision TEXT NOT NULL,
  reason TEXT,
  detail TEXT NOT NULL,
  tier TEXT,
  asked_digest TEXT,
  asked_key TEXT,
  asked_commit TEXT,
  served_digest TEXT,
  served_commit TEXT,
  mode TEXT,
  state TEXT NOT NULL,
  proof TEXT,
  proof_seq INTEGER,
  ended_ns INTEGER,
  mapped_bytes INTEGER,
  copied_bytes INTEGER,
  map_ms REAL,
  fallback_bytes INTEGER,
  fallback_s REAL,
  idle_bytes INTEGER,
  policy TEXT NOT NULL,
  evidence TEXT NOT NULL,
  decided_by TEXT NOT NULL
) STRICT;
INSERT INTO "attach" VALUES('a-1',9,9,1795987490110794539,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','refuted',12,1795987490110803343,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-2',18,15,1795987490110807714,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','fallback','mapping_failed','mmap','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee',NULL,'fell_back',NULL,NULL,NULL,NULL,NULL,NULL,1000,2.0,500,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-3',20,20,1795987490110817370,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','mapped','proved',23,NULL,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-4',24,24,1795987490110828674,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','granted','unprovable',26,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
CREATE TABLE contradiction (
  seq INTEGER NOT NULL PRIMARY KEY,
  asked_key TEXT NOT NULL,
  weights_digest TEXT NOT NULL,
  spellings TEXT NOT NULL
) STRICT;
INSERT INTO "contradiction" VALUES(12,'fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','["/models/base"]');
CREATE TABLE event (
  seq INTEGER NOT NULL PRIMARY KEY,
  stream TEXT NOT NULL,
  version INTEGER NOT NULL,
  event_id TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL,
  schema INTEGER NOT NULL,
  occurred_ns INTEGER NOT NULL,
  recorded_ns INTEGER NOT NULL,
  late INTEGER NOT NULL CHECK (late IN (0, 1)),
  payload TEXT,
  salt BLOB,
  payload_hash BLOB NOT NULL CHECK (length(payload_hash) = 32),
  chain BLOB NOT NULL CHECK (length(chain) = 32),
  UNIQUE (stream, version)
) STRICT;
INSERT INTO "event" VALUES(1,'daemon/d-1',1,'25d5c63a89d14016abc3c5efd8cc5c71','daemon.started',1,1795987490110667614,1795987490120199700,0,'{"instance":"d-1","version":"1","boot_id":"boot","pid":10,"uid":0,"origin":"00000000000000000000000000000000","runtime_dir":"/run/wcache"}',X'6A8979D983E4B541A2E4D9FE61B6A4E1',X'8683DE4FFE6F658803FFED82C2A79170B896B79B6261E07F50A28099557A19FA',X'FA6EE45354EBD60BDB09F32208D04C47F721232F387AD1F7808C322BFCA39CE7');
INSERT INTO "event" VALUES(2,'residency/r-1',1,'7db9024966c84ee0bb810603b234bc38','load.started',1,1795987490110674106,1795987490120199700,0,'{"residency":"r-1","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"instance":"d-1"}',X'F736F79D4FD84F4BF9365C8FA9D1D0FB',X'09EC41F44FF89604992427C3A81F257DB1149CDF98AC03082A66C0353129D4A5',X'1350B10553E16A0BECEB2EF1664A5984442E119845F93DF86F8FE846F3830F6E');
INSERT INTO "event" VALUES(3,'fingerprint/13bbdb5e7a3cf3eaa8f4920924b31ec0',1,'2bc367bacfa74ee095e918bf9a3db016','fingerprint.recorded',1,1795987490110676977,1795987490120199700,0,'{"fingerprint":"13bbdb5e7a3cf3eaa8f4920924b31ec0","evidence":{"tier":"header","algorithm":"wcache/weights/1","digest":"1111111111111111111111111111111111111111111111111111111111111111","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":null,"seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'9CD37EA8EF0CAF41D66EF49752C603D8',X'36EB7CB4CA63D80F3B9373FFDD67234A83A3E2DD78242AEFA13FF40EFD9D1DC3',X'F597E7477D2751DB026A90C505DEBD77ACF4E16AF7A04BC98DD0AD4C982A92F4');
INSERT INTO "event" VALUES(4,'fingerprint/a947c05092eafbde8221d9a9694885b6',1,'6391720f41a141789579c0c98f4b392c','fingerprint.recorded',1,1795987490110777278,1795987490120199700,0,'{"fingerprint":"a947c05092eafbde8221d9a9694885b6","evidence":{"tier":"sampled","algorithm":"wcache/weights/1","digest":"2222222222222222222222222222222222222222222222222222222222222222","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":null,"seed_id":"s1","file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'B9F29B5B5ACD5B8E991A7D84D424FED8',X'7188F714AEA08306D2217DC8F688D82940EF79C6F299EB41F6BF4BE0F078B093',X'9E9340DCAA87309ACAF3B95A4010153AFFF2420835F3BEB02A727467E7F696B6');
INSERT INTO "event" VALUES(5,'fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'e18feb79f8a244ddbbaabd87af8b6343','fingerprint.recorded',1,1795987490110781676,1795987490120199700,0,'{"fingerprint":"1e1e30c3fea228fa4cce06526ce88304","evidence":{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'B800EE706E1EB30362F1D832E2F9B500',X'90DF6C07DB50D7EFFB3918E2262F809F84AE58E7D2BE3DF708BFC2EF81CE7CC7',X'441CC22BD08FE4AB40BDD59DA020CD3D40FA38FA1A7BFD870E9267647A6E17D1');
INSERT INTO "event" VALUES(6,'residency/r-1',2,'a08b9b9cc6ff41168389608165d43286','load.completed',1,1795987490110784401,1795987490120199700,0,'{"residency":"r-1","served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","dtypes":["BF16"],"fingerprints":["13bbdb5e7a3cf3eaa8f4920924b31ec0","a947c05092eafbde8221d9a9694885b6","1e1e30c3fea228fa4cce06526ce88304"],"seconds":{"read":0.5},"strays":[],"misaligned":0,"pinned":false,"processed_digest":null,"lineage":null,"source":null,"config":{},"by":null,"unproven_why":""}',X'F3D00B44E12518AF3F51C6D9F08D95C8',X'4D7C767D133072C5C703C679E8A294920D1F3C4AE3C546AD05EF05A3633DBE1D',X'9E29121BB0F1E29591106CAD77CEC020EA3DAF95E7E6E1B44CB6284A3DEBA331');
INSERT INTO "event" VALUES(7,'trust/g-1',1,'855bb7897b7c4cadb9d5f3f23fbd1a7d','trust.granted',1,1795987490110787411,1795987490120199700,0,'{"grant":{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}}',X'1C927593632E42B6E2CCA0E50D9D8417',X'B2778BCB46D9286339CDAB1106448027F1ACAB8DEBCD058153B85E32F6343BB5',X'C5CDE6E63A070C71111B4E62D69666F9F855AFF48D49BEC0631492144D84197E');
INSERT INTO "event" VALUES(8,'trust/g-1',2,'b4d73df2f9c84294bd6a77371c24c180','trust.revoked',1,1795987490110791094,1795987490120199700,0,'{"grant":"g-1","operator_uid":0,"reason":""}',X'29F8527C7DE03B721A3F63E7C34C3C23',X'56EB0AF14EDBF660F9DD0DB216AA3EF8A795351331B7C1022FF00631C413D882',X'9AF79C7D3A92760125E9D0F428BD068B6089BE46414BA7E7B66B21419D834C10');
INSERT INTO "event" VALUES(9,'attach/a-1',1,'5032b03ada75474b8837483e9b08bae9','attach.decided',1,1795987490110794539,1795987490120199700,0,'{"attach":"a-1","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'4410D9B971BB40710FB26BBD107543A5',X'5AD649F86A4DBAF4A0EE616B0FDD8EAFBDD2144A17908150E60337009CA0002C',X'5EDF3DFEE095201B678093F34D5650FF9A0312331C6295CFF9E516CAACDDE310');
INSERT INTO "event" VALUES(10,'attach/a-1',2,'93e5b61c122c4b47a60310d07b31d967','lease.granted',1,1795987490110797067,1795987490120199700,0,'{"attach":"a-1","residency":"r-1"}',X'04FCEA5563223F8319EEEB8810F3114C',X'C7A1C65EC2B1BF57C9E5E03F416FF5C0CDBF2B5860B215C3CF03948E655D8D16',X'C73262EF2386725637A40E8673A0AD2C53906EFE82E522D85617115BF731085B');
INSERT INTO "event" VALUES(11,'attach/a-1',3,'f97b62815337433184f6e8f9056cb190','map.completed',1,1795987490110799164,1795987490120199700,0,'{"attach":"a-1","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'B1C0EDA9BDD2C3009C5AB4F1624CB6CC',X'ED444E736BEA6F53EFDB2AB63FD2FC45A9CB51879499060B4C9DF38E2D581877',X'B8B60871B149DB7798A62B39E0AEBCB9F2AF9324F689FC37B245304C75E7CCBE');
INSERT INTO "event" VALUES(12,'attach/a-1',4,'6fe654a7e2bd450699b6727d0953e465','verify.failed',1,1795987490110801161,1795987490120199700,0,'{"subject":"hit","attach":"a-1","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","asked_key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","spellings":["/models/base"],"seconds":0.1}',X'A00CF80124EC7BD2DCE55EB5E2DBD5CE',X'DFD0F95E1EAB041EA3FB8D01D22EBDC1130C6D9257896EF5671BB43B46105D99',X'98602FE8C3F342A1C48A4A2C119E05A28D54595707CFDB640457DA501FF4AD71');
INSERT INTO "event" VALUES(13,'attach/a-1',5,'e40245dd0d694cf9adba79393b076d3a','lease.ended',1,1795987490110803343,1795987490120199700,0,'{"attach":"a-1","how":"closed","checked":""}',X'97DAC1CF0E7DD3185ED22E971CA0FC67',X'F22DE62CF21F9EAC1884A610548D4188542BEBEE47821A541A991080F45B4919',X'89FCD06A478BDF6D52C9D471C53F85BBDE43ED182574A6A28D058C3C80C6C0B7');
INSERT INTO "event" VALUES(14,'attach/a-1',6,'5d4b598a6dd54889a3b75b5d8815d9a5','map.failed',1,1795987490110805550,1795987490120199700,1,'{"attach":"a-1","code":"mapping_failed","message":"mmap"}',X'B5766CA0F843458F414A7BCA8C12E279',X'01D2768F7BE23D5EA65D18C2CA614DD7EB35DF59F54F906ABA1B3EDD5F5E962E',X'EF39E2F781308B3D4D8DE3ADD2407B776CCD6F1790019BE034799929ED23913D');
INSERT INTO "event" VALUES(15,'attach/a-2',1,'aa4f383661cb42f9a030a9f27a96b32f','attach.decided',1,1795987490110807714,1795987490120199700,0,'{"attach":"a-2","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'FCC808FA0AF80C103738B40742FC47B5',X'3125BA1728A9B7F4D903C484A450E18CCBA0EC532122C846BABADB9ACE167CAB',X'DCECDD680140243176503999C1910E3C1439B407C3BDDEA9168241893439E5B5');
INSERT INTO "event" VALUES(16,'attach/a-2',2,'54503ab2027147d89a02739981fcd154','lease.granted',1,1795987490110809376,1795987490120199700,0,'{"attach":"a-2","residency":"r-1"}',X'21B601776E9985C0C899AC833A44EDA4',X'1576B73EF6E9D21032578421F04198F3CD392AE3468AD47FD82797666EA74F74',X'70BB98A4D8CCD1B2770CEA683315382AECF714B4088552775E2B9107ECFF55F7');
INSERT INTO "event" VALUES(17,'attach/a-2',3,'e09b341161a14f33b5016bb2dfe06b9c','map.failed',1,1795987490110811403,1795987490120199700,0,'{"attach":"a-2","code":"mapping_failed","message":"mmap"}',X'F7360E48EAA19DE3C1D139FD8CB29D1C',X'E1A5F7E9A1E51320215FC5308F4F3A7301BC1ECCC5E46EFDDAE033EC91874BC6',X'FD2EC7A47CB006A29DB91E6FDF1E3593528A8AB2A6A4703B940D22298DB9AB6A');
INSERT INTO "event" VALUES(18,'attach/a-2',4,'9fc04613a91748bbbfba9280e5c64cbd','attach.redecided',1,1795987490110813263,1795987490120199700,0,'{"attach":"a-2","outcome":"fallback","reason":"mapping_failed","detail":"mmap"}',X'EDAE8DEE7C316A8B3EF991119B091612',X'1AAA56E11EEDCEB50C7A69E643DE3753CE048B1DFAB80EF8C51289EBE44761CE',X'40FB33E6FEAC3D96ED0970C418699C3DE568D7FE9EA066754773A529E43CAF6D');
INSERT INTO "event" VALUES(19,'attach/a-2',5,'cdc2d042f6b845ed901dd3903c3f1b6c','fallback.completed',1,1795987490110815211,1795987490120199700,0,'{"attach":"a-2","bytes":1000,"seconds":2.0,"idle_bytes":500}',X'745C070ED10340E82E4D08F340F713BB',X'DA03220A53511FC573FCD3CA31811B0FBBA753FF8C8D1CB3E352D340A9FF78A0',X'9D073C194A5C987DB86763E29F8B020032941AF8D10885974F8A44A326B84811');
INSERT INTO "event" VALUES(20,'attach/a-3',1,'7ed782de023c4607b4829cfff770de99','attach.decided',1,1795987490110817370,1795987490120199700,0,'{"attach":"a-3","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'F94A422A2D430E21FD947D8B0761DB94',X'19FB8B1AF7C160EB8EC9812D2C42F53B2AFD140698ECF5F828583B031D8344F4',X'3CDB264DBE3C10F60212449F118525D6F333D3DBE7676AFEA2E8AF250ECB6DBC');
INSERT INTO "event" VALUES(21,'attach/a-3',2,'cb458431abd341d99a555c5b86f89a41','lease.granted',1,1795987490110819179,1795987490120199700,0,'{"attach":"a-3","residency":"r-1"}',X'6C97C0E7E3D6E6C2E5FDD969E33FA814',X'963CDBD08FE5FA639C5273F0982C28DFEDE8D58F961CBE9A7B6E8A4F0B212AD1',X'0F3B68EED7F42851F9A9269F90AB49DA31906590A8763E47A652915DBA7A949C');
INSERT INTO "event" VALUES(22,'attach/a-3',3,'88471ae4eb4a43e0946a06e9cff3601b','map.completed',1,1795987490110821001,1795987490120199700,0,'{"attach":"a-3","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'5CDC9BC4A1A10078FFC509797093148E',X'7C072E758B8CCD2E8581992E6B3F60BD5C5C3E87F4269501BA4ECB3BF96A8FB0',X'C79B3D1534EDB553A7BC69518E2D7A9395653481E84A28B757DA62F5B492664C');
INSERT INTO "event" VALUES(23,'attach/a-3',4,'f9c0025da1b94175a7a85ee5caf74aa7','verify.passed',1,1795987490110822574,1795987490120199700,0,'{"subject":"hit","attach":"a-3","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seconds":0.1,"by":"digests"}',X'CF4575D168078E6DB069F71D8BA2D6B4',X'9765A4C87824C09762A641737F9DE4E47F9C27D2AB05424F7D5C64C4AC5D8F8A',X'FB86B7B219444FCE6CE9CE331385A5F44C2CEE9677C6FEB699BAB0C7C0B13C20');
INSERT INTO "event" VALUES(24,'attach/a-4',1,'138004135dc540329b0cdac9fde92dea','attach.decided',1,1795987490110828674,1795987490120199700,0,'{"attach":"a-4","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'5AB2DE5A73EBBBE573A23572B0BA9A85',X'3381049D59658A12F1B2DA7B2F645C04EA1E30CA07B0C6D0B91D73885EC7B371',X'CA76517DE9690CAF10EA277F9B47BE95B107F6E56EC00E2E1FC45D28729B7011');
INSERT INTO "event" VALUES(25,'attach/a-4',2,'92e9dc81ce564f09b8dcb876964dc42b','lease.granted',1,1795987490110834042,1795987490120199700,0,'{"attach":"a-4","residency":"r-1"}',X'EA16A963064A228C1120B54E154B81EC',X'461C049588D8ED3A659EB2654F05B56B5AA3F17ABD302465C070252F1579EFF2',X'BE35F581980665C0CF258746046E82A81767CE03A4EF13136894CEE80DE249C4');
INSERT INTO "event" VALUES(26,'attach/a-4',3,'6c7ccbcf8a69448a8b68a70195cfac2d','verify.inconclusive',1,1795987490110836758,1795987490120199700,0,'{"subject":"hit","attach":"a-4","residency":"r-1","why":"the files changed"}',X'D42F5BBD25359DBE45F5210B370E151F',X'4EFE57D6FE1D2204C15115891E977E460A5D4E49B6B6AEE5AAFFBAE4FD09E63C',X'82C13041263D6DE89D0ABB568C0ED1507B8E9B2EF51D65E94D8C3A42C452A437');
INSERT INTO "event" VALUES(27,'residency/r-2',1,'c1fbb21204b349b296a4f4adbc2cc702','load.failed',1,1795987490110838741,1795987490120199700,0,'{"residency":"r-2","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"code":"no_room","message":"no room","detail":""}',X'040158997405B11E7A00E16F7A5C61DB',X'EE7C7F720F34F66F3031617D7E66FAC62EE7F6C05D025C8E5938E36455F8BEAC',X'F5B3084BF0C5EE9197F1824A7D7AE6F48810E5E3EEB1E01B68BF76E23075586C');
INSERT INTO "event" VALUES(28,'residency/r-1',3,'5c9a0d7fdf52402a941918b677603cdc','release.refused',1,1795987490110841180,1795987490120199700,0,'{"residency":"r-1","uid":0,"why":"leased","leases":["a-3"]}',X'24584563D6BCBE69FAFDC91F20E3E94C',X'B2AF8725E73A973D3899321ED60D55639702005E72256D67A3ED3B9E83D76A6A',X'6108270918194E0E1BFCA6F4FB9FDB46CBA14621BFA2504DA6F74E9A310BDB2F');
INSERT INTO "event" VALUES(29,'residency/r-1',4,'8dba9b3861fb4c8a8bb1156fcad418ac','mutation.detected',1,1795987490110843399,1795987490120199700,0,'{"residency":"r-1","tensors":["w"],"why":""}',X'D83F754E80BA605364A703972CFBBF9C',X'B227D5909C67EFE2E06F89EE7D4638DA28FE9DBADA9CDD3D05F40892D9D1BACB',X'8BF4C1C81FC97AF6559CA4D1A75E86DF93D1BA87725E2094D8E7F8EF511514E6');
INSERT INTO "event" VALUES(30,'residency/r-1',5,'2e9d0ab0e8c4471a86f2010051e5501c','release.requested',1,1795987490110845175,1795987490120199700,0,'{"residency":"r-1","uid":0,"why":"asked","force":false,"leases":[],"when_free":false}',X'4881F2B22109E6652FD6928C72296221',X'51FB5D70F25C967F2A479B8DAD99C2F0C9D187A1F0EA96E8BFF514D0FDC5F15F',X'06BA7C29BD78CDDD87914636C312A735AEB9E84B070A37C9B4EE591CC692985C');
INSERT INTO "event" VALUES(31,'residency/r-1',6,'06af52c0c9e54e12850bf352c3714741','release.completed',1,1795987490110848205,1795987490120199700,0,'{"residency":"r-1","bytes":1000,"checked":""}',X'067C493FC1AC7B278C9E297466106E2F',X'D2438546CE0CE501481BF928209208137B9F5DBFCF146C4061B7C2D812EE9CB2',X'FFBFE264007C19F343DD9783290577781B1B625971DE2EA41678992177F9AF33');
INSERT INTO "event" VALUES(32,'residency/r-3',1,'7d0ccbe874bf4599be521f5ca4f8bb82','load.started',1,1795987490110850065,1795987490120199700,0,'{"residency":"r-3","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"instance":"d-1"}',X'DD065C283E47E8404F5E566A329A2623',X'B46384BDC630E9F9E885FD037BE753810D66BF6B6858D96645BD470ADD287E3A',X'CDCF5768BCF70651A69210934DDD744767E212D23573FA0C37685652BCA51477');
INSERT INTO "event" VALUES(33,'residency/r-3',2,'685d9f72f9564f51b535019516fc49df','residency.lost',1,1795987490110852261,1795987490120199700,0,'{"residency":"r-3","why":"gone"}',X'2D41E7B3A10B09FF8AAA2766C738949F',X'6DF2E762814417BE9B2F4117171CBB2886889A6229F06429651557FA5D988A20',X'A4C413123F39B425EEC4C68FC83DFC3A71C0576763DCA73C796E80453B4114ED');
INSERT INTO "event" VALUES(34,'ledger',1,'5e9411e14cbf4f77b3a420db32ebb5da','peer.refused',1,1795987490110854772,1795987490120199700,0,'{"peer":{"uid":1000,"pid":5},"why":"another user"}',X'49FA9C9FFC240A8C2C42BE6B523EDF32',X'7756E0E230DE0CDAD6679657742494D7DC7778B0075F6B89BD71F08CCF1DDEB1',X'F5A2A3A4CD51D3C2F639DF0D2BA86D4212A3C383ECC3ED936B6177C7334F00AF');
INSERT INTO "event" VALUES(35,'ledger',2,'50b7fc7e90ae40e78c42e6f9cc1e247a','ledger.gap',1,1795987490110856467,1795987490120199700,0,'{"from_ns":1,"to_ns":2,"merged":1,"lost":0,"why":"full"}',X'3F26D8016E24ECF5C7E5A102F895D981',X'8D3957BBDC29053B6C616A34DFCC65D50EAD4045CE693C8B4D441A2943C6923A',X'E30813676430D50B32A871E052068C2CC0322970186E485F2EB12EE179A0E94C');
INSERT INTO "event" VALUES(36,'daemon/d-1',2,'9711a0973b344094afd737cebe93ac9c','daemon.stopped',1,1795987490110858488,1795987490120199700,0,'{"instance":"d-1","by":"signal","left":[]}',X'77B9C5BAE4FDE370F253AAF0E46B3998',X'3A8DF993C6989F4B7993BD912FFFB6DE4AE1AACEFB12A9576A1BD93BA48B5BF5',X'9B9088ED77898C2B30B80F1E5E43C3EF06E590B9A1FCB277B24540DDBE12673A');
INSERT INTO "event" VALUES(37,'daemon/d-2',1,'b6a0d33602044d8a86bc5b5fd69d50eb','daemon.started',1,1795987490110860234,1795987490120199700,0,'{"instance":"d-2","version":"1","boot_id":"boot","pid":10,"uid":0,"origin":"00000000000000000000000000000000","runtime_dir":"/run/wcache"}',X'FDF4A4752AB0AD67F898E4BD81CF7295',X'2B9E5BBA89722BD9898245547F353BBD54B12A72AA800F3C85C6FD0FCEDEB845',X'26CAA81433185A682FE52C393B437057D8A7FBF66ABF9C40D73338A88694AF02');
INSERT INTO "event" VALUES(38,'daemon/d-2',2,'52c2cfe2a7f64280bbfc427a89da4c55','daemon.lost',1,1795987490110867397,1795987490120199700,0,'{"instance":"d-2","noticed_by":"d-3"}',X'3E2A74CE6597E74D3A863D2CF371418B',X'2678116499CD01F593D55DFB5816C3A85DC4315475FC1BADBB9362A727D2E461',X'8D35533832CECB6CFF0E900A3C0E7F0DBE555550997F094EFF210023F5D1046C');
CREATE TABLE fingerprint (
  fingerprint TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  tier TEXT NOT NULL,
  digest TEXT NOT NULL,
  weights_digest TEXT,
  root TEXT,
  key TEXT,
  spelling TEXT NOT NULL,
  instance TEXT,
  recorded_ns INTEGER NOT NULL,
  pinnable INTEGER NOT NULL CHECK (pinnable IN (0, 1)),
  body TEXT NOT NULL
) STRICT;
INSERT INTO "fingerprint" VALUES('13bbdb5e7a3cf3eaa8f4920924b31ec0',3,'header','1111111111111111111111111111111111111111111111111111111111111111',NULL,'/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795987490120199700,1,'{"tier":"header","algorithm":"wcache/weights/1","digest":"1111111111111111111111111111111111111111111111111111111111111111","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":null,"seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
INSERT INTO "fingerprint" VALUES('a947c05092eafbde8221d9a9694885b6',4,'sampled','2222222222222222222222222222222222222222222222222222222222222222',NULL,'/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795987490120199700,1,'{"tier":"sampled","algorithm":"wcache/weights/1","digest":"2222222222222222222222222222222222222222222222222222222222222222","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":null,"seed_id":"s1","file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
INSERT INTO "fingerprint" VALUES('1e1e30c3fea228fa4cce06526ce88304',5,'content','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795987490120199700,1,'{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
CREATE TABLE instance (
  instance TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  state TEXT NOT NULL,
  started_ns INTEGER NOT NULL,
  ended_ns INTEGER,
  pid INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  version TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  runtime_dir TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "instance" VALUES('d-1',1,'stopped',1795987490110667614,1795987490110858488,10,0,'1','boot','/run/wcache');
INSERT INTO "instance" VALUES('d-2',37,'lost',1795987490110860234,1795987490110867397,10,0,'1','boot','/run/wcache');
CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('created_ns','1795987490089886992');
INSERT INTO "meta" VALUES('origin','25a595bd698330a58f492ff18c82c34a');
CREATE TABLE policy (
  policy TEXT NOT NULL PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;
INSERT INTO "policy" VALUES('ecbf1c02a252e835d08fab320a8a85fd','{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"}');
CREATE TABLE residency (
  residency TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  root TEXT,
  repo TEXT,
  commit_id TEXT,
  kind TEXT,
  device TEXT,
  bytes INTEGER,
  tensors INTEGER,
  weights_digest TEXT,
  table_digest TEXT,
  state TEXT NOT NULL,
  loaded_ns INTEGER,
  ended_ns INTEGER,
  instance TEXT,
  known TEXT NOT NULL,
  spellings TEXT NOT NULL,
  dtypes TEXT NOT NULL,
  served TEXT NOT NULL
) STRICT;
INSERT INTO "residency" VALUES('r-1',6,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','released',1795987490110784401,1795987490110848205,'d-1','{"header":"1111111111111111111111111111111111111111111111111111111111111111","sampled:s1":"2222222222222222222222222222222222222222222222222222222222222222"}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO "residency" VALUES('r-2',27,'/models/base','/models/base','org/base','c0ffee',NULL,NULL,NULL,NULL,NULL,NULL,'failed',NULL,1795987490110838741,NULL,'{}','["/models/base","org/base"]','[]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null}');
INSERT INTO "residency" VALUES('r-3',32,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,NULL,NULL,'lost',NULL,1795987490110852261,'d-1','{}','["/models/base","org/base"]','[]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null}');
CREATE TABLE sighting (
  instance TEXT NOT NULL,
  spelling TEXT NOT NULL,
  seq INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  PRIMARY KEY (instance, spelling)
) STRICT, WITHOUT ROWID;
INSERT INTO "sighting" VALUES('d-1','/models/base',5,'1e1e30c3fea228fa4cce06526ce88304');
INSERT INTO "sighting" VALUES('d-1','org/base',6,'1e1e30c3fea228fa4cce06526ce88304');
CREATE TABLE stream (
  stream TEXT NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL,
  state TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "stream" VALUES('attach/a-1',6,'{"state":"ended","outcome":"hit","arrived":true,"proof":"refuted"}');
INSERT INTO "stream" VALUES('attach/a-2',5,'{"state":"fell_back","outcome":"fallback","arrived":false,"proof":null}');
INSERT INTO "stream" VALUES('attach/a-3',4,'{"state":"mapped","outcome":"hit","arrived":true,"proof":"proved"}');
INSERT INTO "stream" VALUES('attach/a-4',3,'{"state":"granted","outcome":"hit","arrived":false,"proof":"unprovable"}');
INSERT INTO "stream" VALUES('daemon/d-1',2,'');
INSERT INTO "stream" VALUES('daemon/d-2',2,'');
INSERT INTO "stream" VALUES('fingerprint/13bbdb5e7a3cf3eaa8f4920924b31ec0',1,'');
INSERT INTO "stream" VALUES('fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'');
INSERT INTO "stream" VALUES('fingerprint/a947c05092eafbde8221d9a9694885b6',1,'');
INSERT INTO "stream" VALUES('ledger',2,'');
INSERT INTO "stream" VALUES('residency/r-1',6,'released');
INSERT INTO "stream" VALUES('residency/r-2',1,'failed');
INSERT INTO "stream" VALUES('residency/r-3',2,'lost');
INSERT INTO "stream" VALUES('trust/g-1',2,'revoked');
CREATE TABLE trust (
  grant TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  scope TEXT NOT NULL,
  state TEXT NOT NULL,
  body TEXT NOT NULL,
  revoked_seq INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "trust" VALUES('g-1',7,'checkpoint','revoked','{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}',8);
CREATE TRIGGER event_no_update BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_no_delete BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_no_replace BEFORE INSERT ON event
WHEN NEW.seq <= coalesce((SELECT max(seq) FROM event), 0)
  OR EXISTS (SELECT 1 FROM event WHERE event_id = NEW.event_id)
  OR EXISTS (SELECT 1 FROM event WHERE stream = NEW.stream AND version = NEW.version)
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE UNIQUE INDEX attach_seq ON attach (seq);
CREATE INDEX attach_launch ON attach (launch);
CREATE INDEX attach_decided_ns ON attach (decided_ns);
CREATE INDEX attach_residency ON attach (residency);
CREATE INDEX residency_state ON residency (state);
CREATE INDEX fingerprint_root ON fingerprint (root, tier, seq);
CREATE INDEX fingerprint_key ON fingerprint (key, tier, seq);
CREATE INDEX fingerprint_spelling ON fingerprint (spelling, tier, seq);
CREATE VIEW attaches AS
SELECT seq, strftime('%Y-%m-%dT%H:%M:%S', decided_ns / 1000000000, 'unixepoch') || printf('.%03dZ', decided_ns / 1000000 % 1000) AS time, launch, rank, world, host, engine, engine_version, checkpoint, decision, reason, detail, tier,
  mode, state, proof, residency, kind, device, asked_digest, served_digest, asked_commit, served_commit, mapped_bytes, copied_bytes, map_ms,
  fallback_bytes, fallback_s, idle_bytes, strftime('%Y-%m-%dT%H:%M:%S', ended_ns / 1000000000, 'unixepoch') || printf('.%03dZ', ended_ns / 1000000 % 1000) AS ended, uid, decided_by, policy, attach, first_seq, proof_seq, decided_ns
FROM attach;
CREATE VIEW hits AS
SELECT * FROM attaches WHERE decision = 'hit';
CREATE VIEW unproven_hits AS
SELECT * FROM attaches
WHERE decision = 'hit' AND proof = 'unproven' AND tier IN ('header', 'sampled', 'attested', 'trusted');
CREATE VIEW wrong_hits AS
SELECT * FROM attaches
WHERE decision = 'hit' AND (proof = 'refuted' OR asked_digest <> served_digest);
CREATE VIEW fallbacks AS
SELECT * FROM attaches WHERE decision <> 'hit';
CREATE VIEW launches AS
SELECT launch, strftime('%Y-%m-%dT%H:%M:%S', min(decided_ns) / 1000000000, 'unixepoch') || printf('.%03dZ', min(decided_ns) / 1000000 % 1000) AS time, min(host) AS host, min(engine) AS engine, min(checkpoint) AS checkpoint,
  max(max(world), max(rank) + 1) AS ranks, count(DISTINCT rank) AS asked,
  count(DISTINCT rank) - count(DISTINCT CASE WHEN decision <> 'hit' OR mapped_bytes IS NULL THEN rank END) AS mapped,
  min(decided_ns) AS decided_ns
FROM attach AS this
WHERE NOT EXISTS (
  SELECT 1 FROM attach AS later WHERE later.launch = this.launch AND later.rank = this.rank AND later.checkpoint = this.checkpoint
    AND later.engine = this.engine AND later.seq > this.seq
)
GROUP BY launch;
CREATE VIEW incomplete_launches AS
SELECT * FROM launches WHERE mapped < ranks;
CREATE VIEW residencies AS
SELECT residency, seq, state, checkpoint, root, repo, commit_id, kind, device, bytes, tensors, weights_digest,
  strftime('%Y-%m-%dT%H:%M:%S', loaded_ns / 1000000000, 'unixepoch') || printf('.%03dZ', loaded_ns / 1000000 % 1000) AS loaded, strftime('%Y-%m-%dT%H:%M:%S', ended_ns / 1000000000, 'unixepoch') || printf('.%03dZ', ended_ns / 1000000 % 1000) AS ended, instance,
  (SELECT count(attach) FROM attach WHERE attach.residency = residency.residency AND attach.state IN ('granted', 'mapped', 'copied'))
    AS leases,
  loaded_ns, ended_ns
FROM residency;
CREATE VIEW grants AS
SELECT "grant", seq, scope, state, json_extract(body, '$.reason') AS reason, json_extract(body, '$.operator_uid') AS operator_uid,
  strftime('%Y-%m-%dT%H:%M:%S', json_extract(body, '$.granted_ns') / 1000000000, 'unixepoch') || printf('.%03dZ', json_extract(body, '$.granted_ns') / 1000000 % 1000) AS granted, strftime('%Y-%m-%dT%H:%M:%S', json_extract(body, '$.expires_ns') / 1000000000, 'unixepoch') || printf('.%03dZ', json_extract(body, '$.expires_ns') / 1000000 % 1000) AS expires, revoked_seq,
  json_extract(body, '$.spellings') AS spellings, json_extract(body, '$.weights_digest') AS weights_digest,
  json_extract(body, '$.residency') AS residency, json_extract(body, '$.instance') AS instance, json_extract(body, '$.prefix') AS prefix
FROM trust;
CREATE VIEW events AS
SELECT seq, strftime('%Y-%m-%dT%H:%M:%S', occurred_ns / 1000000000, 'unixepoch') || printf('.%03dZ', occurred_ns / 1000000 % 1000) AS time, strftime('%Y-%m-%dT%H:%M:%S', recorded_ns / 1000000000, 'unixepoch') || printf('.%03dZ', recorded_ns / 1000000 % 1000) AS recorded, type, stream, version, late, payload, occurred_ns, recorded_ns
FROM event;
CREATE VIEW days AS
SELECT strftime('%Y-%m-%d', decided_ns / 1000000000, 'unixepoch') AS day, decision, coalesce(reason, tier) AS why,
  count(attach) AS attaches, sum(mapped_bytes) AS mapped_bytes, sum(fallback_bytes) AS fallback_bytes, sum(idle_bytes) AS idle_bytes
FROM attach GROUP BY 1, 2, 3;
COMMIT;
